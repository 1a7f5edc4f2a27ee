package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
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

func (a *app) stateMigrateCommand() *cli.Command {
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
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := arguments(cmd, 0); err != nil {
				return err
			}
			if err := c.run(ctx); err != nil {
				return c.jsonFailure(c.json, err)
			}
			return nil
		},
	}
}

func (c *migrateCommand) run(ctx context.Context) error {
	if c.from != "" && c.fromConfig != "" {
		return errors.New("-from and -from-config both name the old location: use one of them")
	}
	config, err := c.load(c.variableOptions)
	if err != nil {
		return err
	}
	to, err := c.stateLocation(config.Desired.Settings)
	if err != nil {
		return err
	}
	if c.abandon {
		return c.leaveThere(ctx, to)
	}
	from, err := c.oldPlace(to)
	if err != nil {
		return err
	}
	if err := c.noDaemon(from, to); err != nil {
		return err
	}
	m := &migration{migrateCommand: c, config: config, from: from, to: to}
	switch {
	case from.shared == nil && to.shared != nil:
		err = m.intoZooKeeper(ctx)
	case from.shared != nil && to.shared == nil:
		err = m.intoFile(ctx)
	case from.same(to):
		return hint(fmt.Errorf("the state is %s already, as configured", to.at()), "change the state block of the configuration first")
	default:
		return hint(errors.New("both locations are of the same kind"), "npctl state pull and npctl state push copy a file; a ZooKeeper is copied with its own tools")
	}
	if err != nil {
		return explainPlace(err, to)
	}
	return m.report.print(c)
}

// oldPlace returns the location of the state to move.
func (c *migrateCommand) oldPlace(to stateLocation) (stateLocation, error) {
	switch {
	case c.from != "":
		path, err := filepath.Abs(c.from)
		return fileLocation(path), err
	case c.fromConfig != "":
		return c.placeOfConfig()
	case to.shared != nil && exists(to.file):
		return fileLocation(to.file), nil
	default:
		return stateLocation{}, hint(errors.New("the old location of the state is not specified"), "name the file with -from, or an old configuration with -from-config")
	}
}

func (c *migrateCommand) placeOfConfig() (stateLocation, error) {
	dir := c.global.config
	info, err := os.Stat(dir)
	if err != nil {
		return stateLocation{}, err
	}
	if !info.IsDir() {
		dir = filepath.Dir(dir)
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return stateLocation{}, err
	}
	if settings, ok := plainStateIn(c.fromConfig); ok && settings.Kind != "" {
		return locationFrom(settings, dir)
	}
	old := *c.app
	old.global.config = c.fromConfig
	config, err := old.load(c.variableOptions)
	if err != nil {
		return stateLocation{}, err
	}
	return locationFrom(config.Desired.Settings.State, dir)
}

// noDaemon returns an error if a daemon on this machine uses one of the states.
func (c *migrateCommand) noDaemon(places ...stateLocation) error {
	for _, p := range places {
		daemon, err := c.daemonState(p)
		if err != nil {
			return err
		}
		if daemon != nil {
			return errors.Join(hint(fmt.Errorf("npctl watch uses the state in %s", p), "stop npctl watch, migrate, and start it again"), daemon.Close())
		}
	}
	return nil
}

// openAny opens a state file of any role.
func (c *migrateCommand) openAny(path string) (*bolt.Store, bolt.FileInfo, error) {
	file, err := bolt.Open(bolt.Options{Path: path, Version: version(), AnyRole: true, ReadOnly: c.dryRun, Log: c.log})
	if err != nil {
		return nil, bolt.FileInfo{}, err
	}
	about, err := file.FileInfo(context.Background())
	if err != nil {
		return nil, about, errors.Join(err, file.Close())
	}
	return file, about, nil
}

// leaveThere implements -abandon: it makes a file the whole state again after an interrupted migration.
func (c *migrateCommand) leaveThere(ctx context.Context, place stateLocation) (err error) {
	path := place.file
	if c.from != "" {
		if path, err = filepath.Abs(c.from); err != nil {
			return err
		}
	}
	if err := c.noDaemon(fileLocation(path)); err != nil {
		return err
	}
	file, about, err := c.openAny(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if about.Role != bolt.RoleMigrating {
		return hint(fmt.Errorf("the state in %s is not being migrated", path), "-from names another file")
	}
	lock, err := c.lock(ctx, file, "state migrate", c.lockTimeout)
	if err != nil {
		return err
	}
	if err := file.ConvertRole(ctx, bolt.RoleChange{Role: bolt.RoleState}); err != nil {
		return errors.Join(err, lock.Unlock(ctx))
	}
	c.ui.message("The state stays in %s. npctl ignores the copied records in %s; the next npctl state migrate overwrites them.", path, about.Location)
	return lock.Unlock(ctx)
}

// unlockAll releases locks. It ignores lost locks, because the session of the process ends them as well.
func unlockAll(ctx context.Context, locks []state.Lock) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
	defer cancel()
	var all error
	for _, lock := range locks {
		if err := lock.Unlock(ctx); err != nil && !errors.Is(err, state.ErrLost) {
			all = errors.Join(all, err)
		}
	}
	return all
}
