package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/builders/gearman"
	wire "github.com/npctl/npctl/internal/gearman"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
)

var errNothingToBuild = hint(errors.New("this host can build no image"), "declare diskimages with a builder other than gearman")

// builderCommand implements npctl builder.
type builderCommand struct {
	*app
	builds, uploads int
	host            string
	grace           time.Duration
	wait            time.Duration
	variables       variableOptions
}

func newBuilderCommand(a *app) *cli.Command {
	c := &builderCommand{app: a}
	return &cli.Command{
		Name:     "builder",
		Usage:    "build images for gearman clients",
		Category: categoryMain,
		Description: `Serves as a build host until it is stopped. Its own configuration says which images it can make
(every diskimage that is not paused) and which providers it can upload to; the gearman block of its
npctl block names the gearman servers. Its clients declare a diskimage with builder "gearman".

It registers image-build:NAME for each image, and image-upload:ID and image-delete:ID for each build that it
keeps, and image-versions:NAME for each zuul_image. After a restart it offers the builds on disk again and removes unfinished ones. No other process may
use the state file and images_dir of this host.

On SIGHUP, and with -reload-on-change also when one of its files changes, it reads its configuration
again: it offers added images, withdraws removed and paused ones, and finishes running jobs with the
configuration that they started with. If the configuration has errors, it logs each of them and keeps the
previous configuration.

SIGTERM or ^C stops it: it accepts no new job, and finishes running jobs within -grace. It stops jobs
that take longer, and another host takes them over.

Exit codes: 0 stopped by a signal, 1 error.`,
		Flags: append(c.variables.flags(),
			&cli.IntFlag{Name: "build-workers", Value: 1, Validator: atLeast(1), Destination: &c.builds, Usage: "run `NUMBER` builds at a time"},
			&cli.IntFlag{Name: "upload-workers", Value: 4, Validator: atLeast(1), Destination: &c.uploads, Usage: "run `NUMBER` uploads and removals at a time"},
			&cli.StringFlag{Name: "host", Destination: &c.host, Usage: "`NAME` of this host for clients; default: the host name"},
			&cli.DurationFlag{Name: "grace", Value: 10 * time.Minute, Destination: &c.grace, Usage: "`TIME` that running jobs get when it is stopped"},
			c.reloadOnChangeFlag(""),
			lockTimeoutFlag(&c.wait),
		),
		Action: c.run,
	}
}

func (c *builderCommand) run(ctx context.Context, cmd *cli.Command) error {
	reloads, forget := c.signals.hangupHints()
	defer forget()
	config, err := c.load(c.variables)
	if err != nil {
		return err
	}
	if config.Desired.Settings.Gearman == nil {
		return hint(errors.New("the configuration names no gearman server"), "write, over several lines: npctl { gearman { servers = [\"host:4730\"] } }")
	}
	servers, err := gearmanOptions(config.Desired.Settings, c.log)
	if err != nil {
		return err
	}
	servers.Drain = c.grace
	s, err := c.openSession(ctx, config, 0, exclusiveState)
	if err != nil {
		return err
	}
	defer s.close()
	return c.locked(ctx, s.store, "builder", c.wait, func(ctx context.Context) error { return c.serve(ctx, s, servers, reloads) })
}

// serve builds images on request until ctx is done.
func (c *builderCommand) serve(ctx context.Context, s *session, servers wire.Options, reloads <-chan struct{}) error {
	s.engine.Builds = c.builds
	delete(s.engine.Builders, "gearman") // a build host that delegated its builds would send them to itself
	images := s.engine.Buildable()
	if len(images) == 0 {
		return errNothingToBuild
	}
	shop, err := reconcile.NewBuildService(ctx, s.engine)
	if err != nil {
		return err
	}
	defer shop.Close()
	host, err := gearman.NewHost(gearman.ServeOptions{Gearman: servers, BuildService: shop, BuildWorkers: c.builds, UploadWorkers: c.uploads,
		Host: c.host, Kinds: errorKinds, Log: c.log})
	if err != nil {
		return err
	}
	c.ui.Message("Building %s for clients of %s. ^C stops.", strings.Join(images, ", "), strings.Join(servers.Servers, ", "))
	b := &buildHost{builderCommand: c, session: s, service: shop, host: host}
	side, end := context.WithCancel(ctx)
	var helpers sync.WaitGroup
	defer func() { end(); helpers.Wait() }()
	helpers.Go(func() { (&reloader{hints: reloads, inputs: c.inputs, log: c.log, reload: b.reload}).run(side) })
	tell := newNotifier(c.log)
	tell.ready()
	helpers.Go(func() {
		<-side.Done()
		tell.stopping()
	})
	return host.Serve(ctx)
}

// buildHost is a build host while it serves requests.
type buildHost struct {
	*builderCommand
	session *session
	service *reconcile.BuildService
	host    *gearman.Host
}

// reload reads the configuration and uses it. If the configuration has errors, reload logs them and keeps the previous
// one.
func (b *buildHost) reload(ctx context.Context, _ string) {
	engine, use, err := b.loadConfiguration(ctx)
	if err == nil {
		err = b.host.Reload(ctx, engine.Buildable(), func(ctx context.Context) error { return b.service.Use(ctx, engine) })
	}
	if err != nil {
		b.logRefusal(err)
		return
	}
	use()
	b.log.Info("configuration reloaded", "images", strings.Join(engine.Buildable(), ", "))
}

// loadConfiguration reads the configuration for a running build host. use is for its connection to ZooKeeper.
func (b *buildHost) loadConfiguration(ctx context.Context) (*reconcile.Engine, func(), error) {
	config, err := b.reloadConfig(b.variables)
	if err != nil {
		return nil, nil, err
	}
	place, err := b.stateOf(config.Desired.Settings)
	if err != nil {
		return nil, nil, err
	}
	before, now := b.session.config.Desired.Settings, config.Desired.Settings
	fixed := ""
	switch {
	case !place.SameState(b.session.place.Location):
		fixed = "the location of the state"
	case before.ImagesDir != now.ImagesDir:
		fixed = "images_dir"
	case before.BuildLogDir != now.BuildLogDir:
		fixed = "build_log_dir"
	case !reflect.DeepEqual(before.Gearman, now.Gearman):
		fixed = "the gearman block"
	}
	if fixed != "" {
		return nil, nil, hint(fmt.Errorf("%s cannot change while npctl builder runs", fixed), "restart npctl builder")
	}
	engine := b.session.engine.With(config.Desired)
	if !slices.ContainsFunc(config.Desired.Images, func(img resources.Image) bool { return engine.Builders[img.Builder] != nil }) {
		return nil, nil, errNothingToBuild
	}
	was := b.session.place.Location
	reconnect, err := reconnection(ctx, b.session.store, was.Changed(place.Location), place.Location)
	if err != nil {
		return nil, nil, err
	}
	return engine, func() { reconnect(); b.session.place.Location = place.Location }, nil
}
