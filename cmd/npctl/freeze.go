package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/watch/httpapi/client"
)

// freezeCommand implements npctl freeze and npctl thaw.
type freezeCommand struct {
	daemonCommand
	frozen, all bool
	reason      string
}

// freezeDocument is the document that npctl freeze and thaw print with -json.
type freezeDocument struct {
	Providers []wire.Provider `json:"providers"`
	Images    []wire.Image    `json:"images"`
}

func newFreezeCommand(a *app) *cli.Command {
	c := &freezeCommand{daemonCommand: daemonCommand{app: a}, frozen: true}
	return &cli.Command{
		Name: "freeze", Category: categoryDaemon, Usage: "stop all actions in providers or on images", ArgsUsage: "PROVIDER|image/NAME...", Metadata: takes(freezable),
		Description: `Freezes providers: npctl watch launches, deletes and assigns nothing there until npctl thaw, also after
a restart. If the state is in ZooKeeper, that applies to every npctl there. Running steps finish. A frozen
image is not built, as with npctl image pause.

Examples:
  npctl freeze vexxhost
  npctl freeze image/debian -reason="mirror is broken"
  npctl freeze -all

Exit codes: 0, or 1 on an error.` + daemonHelp,
		Flags: c.flags(
			&cli.BoolFlag{Name: "all", Destination: &c.all, Usage: "every served provider"},
			&cli.StringFlag{Name: "reason", Destination: &c.reason, Usage: "a `TEXT` to show with a frozen image"}),
		Action: c.run,
	}
}

func newThawCommand(a *app) *cli.Command {
	c := &freezeCommand{daemonCommand: daemonCommand{app: a}}
	return &cli.Command{
		Name: "thaw", Category: categoryDaemon, Usage: "resume actions in providers or on images", ArgsUsage: "PROVIDER|image/NAME...", Metadata: takes(freezable),
		Description: `Ends npctl freeze.

Examples:
  npctl thaw vexxhost
  npctl thaw -all

Exit codes: 0, or 1 on an error.` + daemonHelp,
		Flags:  c.flags(&cli.BoolFlag{Name: "all", Destination: &c.all, Usage: "every frozen provider"}),
		Action: c.run,
	}
}

func (c *freezeCommand) run(ctx context.Context, cmd *cli.Command) error {
	if (cmd.NArg() == 0) != c.all {
		return hint(errors.New(cmd.FullName()+": specify one or more providers, or -all"), "npctl status shows the providers")
	}
	return c.with(ctx, func(ctx context.Context, d *client.Client) error {
		names, err := c.names(ctx, d, cmd.Args().Slice())
		if err != nil {
			return err
		}
		done := freezeDocument{Providers: []wire.Provider{}, Images: []wire.Image{}}
		for _, name := range names {
			if err := c.one(ctx, d, name, &done); err != nil {
				return err
			}
		}
		if c.json {
			return c.printDocument(done)
		}
		if len(names) == 0 {
			return c.ui.Print("No providers to change.")
		}
		return nil
	})
}

// names returns the names to freeze or thaw: those given, or with -all the served providers that are not yet in that
// state.
func (c *freezeCommand) names(ctx context.Context, d *client.Client, given []string) ([]string, error) {
	if !c.all {
		return given, nil
	}
	providers, err := d.Providers(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range providers {
		if p.Configured && p.Served && p.Frozen != c.frozen {
			names = append(names, p.Name)
		}
	}
	return names, nil
}

func (c *freezeCommand) one(ctx context.Context, d *client.Client, name string, done *freezeDocument) error {
	kind, rest, found := strings.Cut(subjectOf(name), "/")
	if found && kind == "image" {
		img, err := c.image(ctx, d, rest)
		if err != nil {
			return err
		}
		done.Images = append(done.Images, img)
		return c.printChange(map[bool]string{true: "Image %s is not built until npctl thaw image/%[1]s.", false: "Image %s may be built again."}[c.frozen], rest)
	}
	if found && kind == "provider" {
		name = rest
	}
	p, err := c.provider(ctx, d, name)
	if err != nil {
		return err
	}
	done.Providers = append(done.Providers, p)
	return c.printChange(map[bool]string{true: "Provider %s is frozen until npctl thaw %[1]s.", false: "Provider %s is not frozen any more."}[c.frozen], name)
}

func (c *freezeCommand) image(ctx context.Context, d *client.Client, name string) (wire.Image, error) {
	if c.frozen {
		return d.PauseImage(ctx, name, c.reason)
	}
	return d.UnpauseImage(ctx, name)
}

func (c *freezeCommand) provider(ctx context.Context, d *client.Client, name string) (wire.Provider, error) {
	if c.frozen {
		return d.FreezeProvider(ctx, name)
	}
	return d.ThawProvider(ctx, name)
}

// printChange prints a message about a change, unless -json is set.
func (c *daemonCommand) printChange(format string, args ...any) error {
	if c.json {
		return nil
	}
	return c.ui.Print("%s", visibleLine(fmt.Sprintf(format, args...)))
}
