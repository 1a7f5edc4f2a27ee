package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/builders/gearman"
	wire "github.com/npctl/npctl/internal/gearman"
	"github.com/npctl/npctl/reconcile"
)

// builderOptions are those of npctl builder.
type builderOptions struct {
	builds, uploads int
	host            string
	grace           time.Duration
	wait            time.Duration
	variables       variableOptions
}

func (a *app) builderCommand() *cli.Command {
	var o builderOptions
	return &cli.Command{
		Name:     "builder",
		Usage:    "build images for others, who ask by gearman",
		Category: categoryMain,
		Description: `Serves as a build host until it is stopped. Its own configuration says which images it can make
(every diskimage that is not paused) and which providers it can upload to; the gearman block of its
npctl block says where jobs come from. Those who ask have a diskimage with builder "gearman".

It registers image-build:NAME for each image, and image-upload:ID and image-delete:ID for each build that it
keeps. What is on disk is known again after a restart; what was left half done is removed. The state file
and images_dir belong to this host alone.

SIGTERM or ^C stops it: it takes no new job, and finishes those in hand within -grace. What takes longer
is stopped and left to another host.`,
		Flags: append(o.variables.flags(),
			&cli.IntFlag{Name: "build-workers", Value: 1, Validator: atLeast(1), Destination: &o.builds, Usage: "make `NUMBER` builds at a time"},
			&cli.IntFlag{Name: "upload-workers", Value: 4, Validator: atLeast(1), Destination: &o.uploads, Usage: "do `NUMBER` uploads and removals at a time"},
			&cli.StringFlag{Name: "host", Destination: &o.host, Usage: "`NAME` of this host as others see it; the machine's when not given"},
			&cli.DurationFlag{Name: "grace", Value: 10 * time.Minute, Destination: &o.grace, Usage: "`TIME` that jobs in hand get when it is stopped"},
			lockTimeoutFlag(&o.wait, ""),
		),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := arguments(cmd, 0); err != nil {
				return err
			}
			return a.serveBuilds(ctx, o)
		},
	}
}

func (a *app) serveBuilds(ctx context.Context, o builderOptions) error {
	c, err := a.load(o.variables)
	if err != nil {
		return err
	}
	if c.Desired.Settings.Gearman == nil {
		return hint(fmt.Errorf("the configuration names no gearman server"), "write, over several lines: npctl { gearman { servers = [\"host:4730\"] } }")
	}
	servers, err := gearmanOptions(c.Desired.Settings, a.log)
	if err != nil {
		return err
	}
	servers.Drain = o.grace
	s, err := a.openSession(ctx, c, 0, ownState)
	if err != nil {
		return err
	}
	defer s.close()
	return a.locked(ctx, s.store, "builder", o.wait, func(ctx context.Context) error { return a.makeBuilds(ctx, s, o, servers) })
}

// makeBuilds builds for whoever asks until ctx ends.
func (a *app) makeBuilds(ctx context.Context, s *session, o builderOptions, servers wire.Options) error {
	s.engine.Builds = o.builds
	delete(s.engine.Builders, "gearman") // a host that asked others would ask itself
	shop, err := reconcile.NewWorkshop(ctx, s.engine)
	if err != nil {
		return err
	}
	defer shop.Close()
	images := shop.Images()
	if len(images) == 0 {
		return hint(fmt.Errorf("there is no image that this host can make"), "declare diskimages with a builder other than gearman")
	}
	a.ui.talk("Building %s for whoever asks at %s. ^C stops.", strings.Join(images, ", "), strings.Join(servers.Servers, ", "))
	return gearman.Serve(ctx, gearman.ServeOptions{Gearman: servers, Workshop: shop, BuildWorkers: o.builds, UploadWorkers: o.uploads,
		Host: o.host, Kinds: errorKinds, Log: a.log})
}
