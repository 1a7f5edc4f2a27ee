package main

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/internal/terminal"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan/planfile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

const showDescription = `With PLANFILE, shows a saved plan as npctl plan did. Without, shows the builds,
uploads and nodes in the state, and the holder of the lock of the state. No cloud is queried.

Examples:
  npctl show
  npctl show tonight.plan
  npctl show -json tonight.plan

Exit codes: 0, or 1 on an error.`

// showCommand implements npctl show.
type showCommand struct {
	*app
	json, verbose bool
}

func newShowCommand(a *app) *cli.Command {
	c := &showCommand{app: a}
	return &cli.Command{
		Name: "show", Category: categoryState, Usage: "show a saved plan, or the state", ArgsUsage: "[PLANFILE]", Description: showDescription, Metadata: takes(single(files)),
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Destination: &c.json, Usage: "print one JSON document (see docs/plan-json.md and docs/json.md)"},
			&cli.BoolFlag{Name: "verbose", Destination: &c.verbose, Usage: "show all values of a plan in full"},
		},
		Action: c.run,
	}
}

func (c *showCommand) run(ctx context.Context, cmd *cli.Command) error {
	if path := cmd.Args().First(); path != "" {
		return c.plan(path)
	}
	return c.state(ctx)
}

func (c *showCommand) plan(path string) error {
	file, err := planfile.Read(path)
	if err != nil {
		return err
	}
	switch change := file.Change; {
	case change != nil && c.json:
		return c.printEffectReport(file.Plan, file.Meta, change.Effect)
	case change != nil:
		return c.printEffect(change.Effect, c.verbose)
	case c.json:
		return c.printReport(file.Plan, file.Meta)
	default:
		return c.printPlan(file.Plan, &planOptions{verbose: c.verbose}, time.Time{})
	}
}

// stateReport is the document that show -json prints for a state.
type stateReport struct {
	Path string `json:"path"`
	state.Identity
	Lock    *state.Holder `json:"lock,omitempty"`
	Records []recordLine  `json:"records"`
}

func (c *showCommand) state(ctx context.Context) error {
	store, place, err := c.openFound(ctx, readState)
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // read-only file
	report := stateReport{Path: place.String()}
	if report.Identity, err = store.Identity(ctx); err != nil {
		return err
	}
	if report.Lock, err = store.Holder(ctx, stateLock); err != nil {
		return err
	}
	entries, err := store.List(ctx, livingKinds...)
	if err != nil {
		return err
	}
	if c.json {
		report.Records = recordLines(entries)
		return c.printDocument(report)
	}
	return c.overview(report, entries)
}

// overview prints the state as tables.
func (c *showCommand) overview(r stateReport, entries []state.Entry) error {
	p := c.ui.Page()
	line := func(format string, args ...any) { p.Line(terminal.StylePlain, fmt.Sprintf(format, args...)) }
	line("State %s", r.Path)
	line("Lineage %s, serial %d, schema %d", r.Lineage, r.Serial, r.Schema)
	if r.Lock != nil {
		line("Locked by %s for %s since %s (process %d on %s, lock id %s)", r.Lock.UserHost, r.Lock.Operation,
			r.Lock.Since.Local().Format(time.DateTime), r.Lock.PID, r.Lock.Host, r.Lock.ID)
	}
	now := time.Now()
	for _, section := range sections {
		rows := [][]string{section.head}
		for _, e := range entries {
			if cells := section.row(e.Record, now); cells != nil {
				rows = append(rows, cells)
			}
		}
		line("")
		if len(rows) == 1 {
			line("No %s.", section.name)
			continue
		}
		p.Table(rows)
	}
	return c.ui.Write(p.String())
}

// sections lists the tables of the overview. row returns nil for a record of another table.
var sections = []struct {
	name string
	head []string
	row  func(resources.Record, time.Time) []string
}{
	{"builds", []string{"BUILD", "IMAGE", "STATE", "AGE", "FORMATS", "HOST"}, buildRow},
	{"uploads", []string{"UPLOAD", "IMAGE", "PROVIDER", "STATE", "AGE", "SIZE", "CLOUD ID"}, uploadRow},
	{"nodes", []string{"NODE", "LABELS", "PROVIDER/POOL", "STATE", "AGE", "ADDRESS", "CLOUD ID"}, nodeRow},
}

func buildRow(r resources.Record, now time.Time) []string {
	b, ok := r.(*resources.Build)
	if !ok {
		return nil
	}
	formats := make([]string, len(b.Files))
	for i, f := range b.Files {
		formats[i] = f.Format
	}
	return []string{b.ID, b.Image, string(b.State), age(b.Created, now), words(formats), b.Host}
}

func uploadRow(r resources.Record, now time.Time) []string {
	u, ok := r.(*resources.Upload)
	if !ok {
		return nil
	}
	return []string{u.ID, u.Image, u.Provider, string(u.State), age(u.Created, now), text.Bytes(u.Size), u.ExternalID}
}

func nodeRow(r resources.Record, now time.Time) []string {
	n, ok := r.(*resources.Node)
	if !ok {
		return nil
	}
	id := n.ExternalID
	if n.Static {
		id = "(static)"
	}
	return []string{n.ID, words(n.Labels), n.Provider + "/" + n.Pool, string(n.State), age(n.Created, now), addressText(n), id}
}
