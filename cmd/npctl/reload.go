package main

import (
	"context"
	"errors"
	"slices"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/watch/httpapi/client"
)

// reloadCommand implements npctl reload.
type reloadCommand struct {
	*daemonCommand
	comparison planOptions // -against and the variables
	rules      ruleOptions
	options    wire.Reload
	expect     string
}

func newReloadCommand(a *app) *cli.Command {
	c := &reloadCommand{daemonCommand: &daemonCommand{app: a}, comparison: planOptions{refresh: true}}
	own := append([]cli.Flag{
		&cli.BoolFlag{Name: "allow-destroy", Destination: &c.options.AllowDestroy, Usage: "even if many objects are deleted"},
		c.comparison.againstFlag(),
		&cli.StringFlag{Name: "expect", Destination: &c.expect, TakesFile: true, Usage: "with -against: reload only if the effect is the reviewed one. `REVIEWED` is its digest, or a file of npctl plan -against: its -out, or its -json output"},
	}, slices.Concat(c.rules.ruleFlags(), c.comparison.variables.flags())...)
	return &cli.Command{
		Name: "reload", Category: categoryDaemon, Usage: "reload the configuration of npctl watch",
		Description: `Makes npctl watch reload its configuration, and shows the immediate changes. npctl watch refuses a configuration
that has errors, or that would delete many objects unless -allow-destroy is given, and keeps the previous one.

With -against and -expect it reloads only if the effect of the change since that revision is the reviewed one, the daemon has the
configuration of that revision in force, and its files have the current configuration. Run it in the directory of the
daemon's configuration, with the variables of the daemon.

Examples:
  npctl validate && npctl plan && npctl reload
  npctl reload -allow-destroy
  npctl reload -against=HEAD^1 -expect=effect.json   (after the merge of a reviewed change)

Exit codes: 0, or 1 on an error or when the configuration was refused.` + daemonHelp,
		Flags: c.flags(own...),
		Action: func(ctx context.Context, _ *cli.Command) error {
			if err := c.check(ctx); err != nil {
				return err
			}
			return c.with(ctx, c.reload)
		},
	}
}

func (c *reloadCommand) reload(ctx context.Context, d *client.Client) error {
	c.options.Actor = c.actor()
	r, err := d.Reload(ctx, c.options)
	if err != nil {
		c.printPendingDeletions(err)
		return err
	}
	if c.json {
		return c.printDocument(r)
	}
	return c.reloaded(r)
}

// check compares the effect of the change with the reviewed one, if options ask for it, and sets the digests of both configurations.
func (c *reloadCommand) check(ctx context.Context) error {
	switch {
	case c.expect == "" && c.comparison.against == "":
		return nil
	case c.expect == "" || c.comparison.against == "":
		return hint(errors.New("-against and -expect belong together: npctl watch does everything that is due after a reload"),
			"show the effect of a change with npctl plan -against")
	}
	expected, err := readExpectation(c.expect)
	if err != nil {
		return err
	}
	config, base, err := c.readBoth(ctx, c.comparison.against, c.comparison.variables, false)
	defer base.close(c.app)
	if err != nil {
		return err
	}
	s, err := c.openSession(ctx, config, 0, readState)
	if err != nil {
		return err
	}
	defer s.close()
	if s.rules, err = c.readRules(config, c.rules); err != nil {
		return err
	}
	e, _, err := s.effect(ctx, base, &c.comparison, plan.Options{})
	if err != nil {
		return err
	}
	if !c.json {
		if err := c.printEffect(e, false); err != nil {
			return err
		}
	}
	if err := c.compare(e, expected); err != nil {
		return err
	}
	if len(e.Problems) > 0 {
		return hint(errors.New("the change has a new problem; npctl watch has not reloaded"), "npctl plan -against="+e.Against+" shows it")
	}
	c.options.Reviewed, c.options.Overrides = e.Digest(), overridden(e.Notes)
	c.options.From, c.options.To = string(s.engine.With(base.Desired).Desired.Digests.Current()), string(s.config.Desired.Digests.Current())
	return nil
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
