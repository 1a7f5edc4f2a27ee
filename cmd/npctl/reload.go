package main

import (
	"context"
	"errors"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/watch/httpapi/client"
)

// reloadDocument is the document that npctl reload prints with -json.
type reloadDocument struct {
	FormatVersion string `json:"format_version"`
	wire.Reloaded
}

func newReloadCommand(a *app) *cli.Command {
	c := &daemonCommand{app: a}
	allow := false
	return &cli.Command{
		Name: "reload", Category: categoryDaemon, Usage: "reload the configuration of npctl watch",
		Description: `Makes npctl watch reload its configuration, and shows the immediate changes. npctl watch refuses a configuration
that has errors, or that would delete many objects unless -allow-destroy is given, and keeps the previous one.

Examples:
  npctl validate && npctl plan && npctl reload
  npctl reload -allow-destroy

Exit codes: 0, or 1 on an error or when the configuration was refused.` + daemonHelp,
		Flags: c.flags(&cli.BoolFlag{Name: "allow-destroy", Destination: &allow, Usage: "even if many objects are deleted"}),
		Action: func(ctx context.Context, _ *cli.Command) error {
			return c.with(ctx, func(ctx context.Context, d *client.Client) error {
				r, err := d.Reload(ctx, allow)
				if err != nil {
					c.printPendingDeletions(err)
					return err
				}
				if c.json {
					return c.printJSON(reloadDocument{jsonVersion, r})
				}
				return c.reloaded(r)
			})
		},
	}
}

func (c *daemonCommand) reloaded(r wire.Reloaded) error {
	const shown = 20
	for i, s := range r.Steps {
		if i == shown {
			c.ui.Message("  ... and %d more", len(r.Steps)-shown)
			break
		}
		c.ui.Message("  %s %s: %s", s.Action, visibleLine(s.Address), s.Text)
	}
	return c.ui.Print("Configuration reloaded. %s", r.Summary)
}

// printPendingDeletions lists the objects that the rejected configuration would delete.
func (c *daemonCommand) printPendingDeletions(err error) {
	var no *client.Error
	if !errors.As(err, &no) || c.json {
		return
	}
	for _, address := range no.PendingDeletions {
		c.ui.Message("  would remove %s", visibleLine(address))
	}
}
