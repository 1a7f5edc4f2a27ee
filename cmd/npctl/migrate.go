package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/location"
	"github.com/npctl/npctl/state/migrate"
)

const stateMigrateDescription = `Moves the state from its old location to the one in the configuration: from a file into ZooKeeper,
or back. First change the state block of the configuration, then migrate and name the old location.

Nodes, builds and uploads move with the records of providers, images and times. They keep their ids,
so that npctl still recognizes its objects in the clouds by their ownership tags. npctl reads every
record back and compares it. Requests do not move: none may be open. npctl watch must not run, and no
other process may serve the providers.

An interrupted migration is safe: run the same command again to resume it. Until then npctl refuses
to use either location, and -abandon keeps a partly moved state in its file. From ZooKeeper, npctl
moves only the records of providers and images in this configuration.

-from-config names a file with the old configuration, of which only the state block counts; its
relative paths start at the directory of the new configuration. Into ZooKeeper, -from is optional if
the new state block names the old file.

Examples:
  npctl state migrate -from=.npctl/npctl.db -dry-run
  npctl state migrate -from=.npctl/npctl.db
  git show HEAD~1:npctl.hcl > /tmp/old.hcl && npctl state migrate -from-config=/tmp/old.hcl

Exit codes: 0 moved, 1 error.`

// migrateCommand implements npctl state migrate.
type migrateCommand struct {
	*app
	variableOptions
	from, fromConfig      string
	json, dryRun, abandon bool
	lockTimeout           time.Duration
	// after is called after each durable step; tests return an error to interrupt the migration there.
	after func(what string) error
}

func newStateMigrateCommand(a *app) *cli.Command {
	c := &migrateCommand{app: a, after: func(string) error { return nil }}
	return &cli.Command{
		Name: "migrate", Usage: "move the state to the location in the configuration", Description: stateMigrateDescription,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "from", Destination: &c.from, TakesFile: true, Usage: "`FILE` that contains the state"},
			&cli.StringFlag{Name: "from-config", Destination: &c.fromConfig, TakesFile: true, Usage: "configuration `FILE` whose state block has the old location"},
			&cli.BoolFlag{Name: "dry-run", Destination: &c.dryRun, Usage: "only show the records to move"},
			&cli.BoolFlag{Name: "abandon", Destination: &c.abandon, Usage: "keep a partly moved state in its file"},
			&cli.DurationFlag{Name: "lock-timeout", Destination: &c.lockTimeout, Value: 15 * time.Second, Usage: "wait for a `DURATION` for locks, also for those of a killed process"},
			&cli.BoolFlag{Name: "json", Destination: &c.json, Usage: "print one JSON document (see docs/json.md)"},
		}, c.flags()...),
		Action: c.run,
	}
}

func (c *migrateCommand) run(ctx context.Context, _ *cli.Command) error {
	if c.from != "" && c.fromConfig != "" {
		return errors.New("-from and -from-config both name the old location: use one of them")
	}
	config, err := c.load(c.variableOptions)
	if err != nil {
		return err
	}
	place, err := c.stateOf(config.Desired.Settings)
	if err != nil {
		return err
	}
	to := place.Location
	if c.abandon {
		return c.abandonMigration(ctx, to)
	}
	from, err := c.oldPlace(to)
	if err != nil {
		return err
	}
	if err := c.noDaemon(from, to); err != nil {
		return err
	}
	report, err := migrate.Run(ctx, c.options(config, from, to))
	if err != nil {
		return location.Explain(err, to)
	}
	return c.printReport(report)
}

// options returns the options of a migration between two locations.
func (c *migrateCommand) options(config *configuration, from, to location.Location) migrate.Options {
	told := time.Now()
	return migrate.Options{From: from, To: to, Desired: config.Desired, DryRun: c.dryRun, LockTimeout: c.lockTimeout, OpenTimeout: openTimeout,
		Version: version(), Log: c.log, Lock: c.lockState, After: c.after,
		ProviderRecord: func(p *resources.Provider) (*resources.ProviderRecord, error) {
			return reconcile.Remember(p, config.registry.drivers[p.Driver].Schema().Provider)
		},
		Progress: func(written, all int) {
			if time.Since(told) > progressInterval && !c.json {
				told = time.Now()
				c.ui.Message("%d of %s written.", written, text.Count(all, "record is", "records are"))
			}
		}}
}

// progressInterval is the minimum time between two progress messages.
const progressInterval = 2 * time.Second

func (c *migrateCommand) lockState(ctx context.Context, store state.Store) (state.Lock, error) {
	return c.lock(ctx, store, migrate.Operation, c.lockTimeout)
}

// oldPlace returns the location of the state to move.
func (c *migrateCommand) oldPlace(to location.Location) (location.Location, error) {
	switch {
	case c.from != "":
		path, err := filepath.Abs(c.from)
		return location.InFile(path), err
	case c.fromConfig != "":
		return c.placeOfConfig()
	case to.Shared != nil && exists(to.File):
		return location.InFile(to.File), nil
	default:
		return location.Location{}, hint(errors.New("the old location of the state is not specified"), "name the file with -from, or an old configuration with -from-config")
	}
}

func (c *migrateCommand) placeOfConfig() (location.Location, error) {
	dir := c.global.config
	info, err := os.Stat(dir)
	if err != nil {
		return location.Location{}, err
	}
	if !info.IsDir() {
		dir = filepath.Dir(dir)
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return location.Location{}, err
	}
	if settings, ok := location.PlainIn(c.fromConfig); ok && settings.Kind != "" {
		return location.From(settings, dir)
	}
	old := *c.app
	old.global.config = c.fromConfig
	config, err := old.load(c.variableOptions)
	if err != nil {
		return location.Location{}, err
	}
	return location.From(config.Desired.Settings.State, dir)
}

// noDaemon returns an error if a daemon on this machine uses one of the states.
func (c *migrateCommand) noDaemon(places ...location.Location) error {
	for _, p := range places {
		daemon, err := statePlace{p, c.app}.daemon()
		if err != nil {
			return err
		}
		if daemon != nil {
			return errors.Join(hint(fmt.Errorf("npctl watch uses the state in %s", p), "stop npctl watch, migrate, and start it again"), daemon.Close())
		}
	}
	return nil
}

// abandonMigration implements -abandon: it makes a file the whole state again after an interrupted migration.
func (c *migrateCommand) abandonMigration(ctx context.Context, place location.Location) error {
	if c.from != "" {
		path, err := filepath.Abs(c.from)
		if err != nil {
			return err
		}
		place = location.InFile(path)
	}
	place = location.InFile(place.File)
	if err := c.noDaemon(place); err != nil {
		return err
	}
	elsewhere, err := migrate.Abandon(ctx, migrate.Options{From: place, DryRun: c.dryRun, Version: version(), Log: c.log, Lock: c.lockState})
	if err != nil {
		return err
	}
	c.ui.Message("The state stays in %s. npctl ignores the copied records in %s; the next npctl state migrate overwrites them.", place.File, elsewhere)
	return nil
}

// printReport prints what a migration has moved.
func (c *migrateCommand) printReport(r migrate.Report) error {
	if c.json {
		r.FormatVersion = jsonVersion
		return c.printJSON(r)
	}
	verb := "Moved"
	if r.DryRun {
		verb = "Would move"
	}
	lines := []string{fmt.Sprintf("%s %s, %s and %s from %s to %s.", verb, text.Count(r.Nodes, "node", "nodes"), text.Count(r.Uploads, "upload", "uploads"),
		text.Count(r.Builds, "build", "builds"), visibleLine(r.From), visibleLine(r.To))}
	if r.There > 0 {
		lines = append(lines, fmt.Sprintf("%s there already, from an earlier run.", text.Count(r.There, "record was", "records were")))
	}
	if r.Requests > 0 {
		lines = append(lines, fmt.Sprintf("%s not moved: all of them have ended.", text.Count(r.Requests, "request was", "requests were")))
	}
	if r.LeftBehind > 0 {
		lines = append(lines, fmt.Sprintf("%s left where they are: their providers and images are not in this configuration.", text.Count(r.LeftBehind, "record is", "records are")))
	}
	if r.Backup != "" {
		lines = append(lines, fmt.Sprintf("The backup of the file is %s.", visibleLine(r.Backup)))
	}
	if !r.DryRun {
		lines = append(lines, fmt.Sprintf("All %d were read back and are the same. npctl plan should show no changes.", r.Verified))
	}
	for _, line := range lines {
		if err := c.ui.Print("%s", line); err != nil {
			return err
		}
	}
	return nil
}
