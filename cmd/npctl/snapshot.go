package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/internal/host"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/plan/snapshot"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch/httpapi/client"
)

const snapshotDescription = `Prints what npctl has observed, as one JSON document: the records, the listings of the clouds, and the
names that the clouds have, such as flavors and networks. npctl plan -snapshot plans with it, without access to
the state and the clouds. A snapshot has no secrets, but names and addresses of your nodes.

A running npctl watch makes the snapshot of its configuration and its newest listings. Otherwise npctl lists the
clouds. GET /v1/snapshot of npctl watch returns the same document; a token with the role read-only suffices.

Examples:
  npctl snapshot -out=/srv/www/npctl-snapshot.json
  npctl plan -against=HEAD^1 -snapshot=npctl-snapshot.json` + daemonHelp + `

Exit codes: 0, or 1 on an error.`

// snapshotCommand implements npctl snapshot.
type snapshotCommand struct {
	daemonCommand
	variables variableOptions
	out       string
}

func newSnapshotCommand(a *app) *cli.Command {
	c := &snapshotCommand{daemonCommand: daemonCommand{app: a}}
	flags := append(c.connectionFlags(), &cli.StringFlag{Name: "out", Category: categoryOutput, Destination: &c.out, TakesFile: true, Usage: "write the snapshot to `FILE` instead of stdout"})
	return &cli.Command{Name: "snapshot", Category: categoryState, Usage: "print the observed state, for plans in reviews", Description: snapshotDescription,
		Flags: append(flags, c.variables.flags()...), Action: c.run}
}

func (c *snapshotCommand) run(ctx context.Context, _ *cli.Command) error {
	if err := (outputFile{"out", c.out, []string{`{"snapshot_format":`}}).check(); err != nil {
		return err
	}
	d, err := c.dial()
	if err != nil {
		return c.explain(err)
	}
	defer d.Close()
	doc, err := d.Snapshot(ctx)
	switch {
	case errors.Is(err, client.ErrNoDaemon) && c.socket == "":
		if doc, err = c.observe(ctx); err != nil {
			return err
		}
	case err != nil:
		return c.explain(err)
	}
	if c.out == "" {
		return c.ui.Write(string(doc))
	}
	if err := host.ReplaceReadableFile(c.out, doc); err != nil {
		return fmt.Errorf("write snapshot to %s: %w", c.out, err)
	}
	return nil
}

// observe lists the clouds and returns a snapshot.
func (c *snapshotCommand) observe(ctx context.Context) ([]byte, error) {
	s, err := c.loadSession(ctx, c.variables, 0, readState)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if s.seen, err = s.observeWithLock(ctx, true); err != nil {
		return nil, err
	}
	made, err := s.engine.Snapshot(ctx, s.meta(plan.Options{}), &s.seen)
	if err != nil {
		return nil, err
	}
	return made.JSON()
}

// readSnapshot reads the snapshot of -snapshot. It returns nil without that option.
func (c *planCommand) readSnapshot(ctx context.Context) (*snapshot.Snapshot, error) {
	switch {
	case c.snapshot == "" && c.snapshotAge != 0:
		return nil, hint(errors.New("-snapshot-age is about -snapshot"), "add -snapshot=FILE or -snapshot=URL")
	case c.snapshot == "":
		return nil, nil //nolint:nilnil // a plan with the state
	}
	s, err := c.fetchSnapshot(ctx)
	if err != nil {
		return nil, hint(fmt.Errorf("option -snapshot=%s: %w", c.snapshot, err), "npctl snapshot -out=FILE writes one, and npctl watch with -listen serves one")
	}
	if age := time.Since(s.Meta.Created); c.snapshotAge > 0 && age > c.snapshotAge {
		return nil, hint(fmt.Errorf("the snapshot %s is %s old, more than the %s of -snapshot-age", c.snapshot, age.Round(time.Second), c.snapshotAge), "make another one with npctl snapshot -out=FILE")
	}
	return s, nil
}

func (c *planCommand) fetchSnapshot(ctx context.Context) (*snapshot.Snapshot, error) {
	if isURL(c.snapshot) {
		d := daemonCommand{app: c.app, socket: c.snapshot}
		var s *snapshot.Snapshot
		err := d.with(ctx, func(ctx context.Context, server *client.Client) error {
			doc, err := server.Snapshot(ctx)
			if err == nil {
				s, err = snapshot.Read(doc)
			}
			return err
		})
		return s, err
	}
	doc, err := host.ReadFile(c.snapshot, snapshot.SizeLimit)
	if err != nil {
		return nil, err
	}
	return snapshot.Read(doc)
}

// snapshotSession opens a session with a snapshot instead of a state. It contacts nothing.
func (a *app) snapshotSession(c *configuration, s *snapshot.Snapshot, boundary string) (*session, error) {
	settings := c.Desired.Settings
	if settings.Gearman != nil { // its certificates are outside of the repository
		plain := *settings.Gearman
		plain.TLS = nil
		settings.Gearman = &plain
	}
	able, err := c.registry.buildersFor(settings, a.log)
	if err != nil {
		return nil, err
	}
	identity := state.Identity{Lineage: s.Meta.Lineage, Serial: s.Meta.Serial, HashKey: resources.NewHashKey()} // that of the state is a secret
	engine := reconcile.New(reconcile.Options{Desired: c.Desired, HashKey: identity.HashKey, Drivers: c.registry.drivers, Builders: able, Log: a.log})
	c.Desired = engine.Desired
	return &session{app: a, config: c, identity: identity, engine: engine, snapshot: s, boundary: boundary}, nil
}

// ageNote returns the note with the age of the snapshot.
func (s *session) ageNote() plan.Note {
	made := s.snapshot.Meta.Created
	return plan.Note{Severity: plan.Info, Code: "snapshot", Text: fmt.Sprintf("planned with a snapshot of %s, which is %s old", made.Local().Format("2006-01-02 15:04:05 MST"), age(made, time.Now()))}
}
