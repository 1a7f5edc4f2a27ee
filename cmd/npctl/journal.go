package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/watch/httpapi/client"
)

// eventsCommand implements npctl events.
type eventsCommand struct {
	daemonCommand
	follow  bool
	subject string
	limit   int
}

func newEventsCommand(a *app) *cli.Command {
	c := &eventsCommand{daemonCommand: daemonCommand{app: a}}
	return &cli.Command{
		Name: "events", Category: categoryDaemon, Usage: "show recent events",
		Description: `Shows the newest events of npctl watch: its actions and decisions, and the commands it received. The journal
holds a few thousand events and survives restarts. With -f it prints new events as they occur.

Subjects are for example node/17, request/17, label/debian, image/debian and provider/vexxhost.

Examples:
  npctl events -f
  npctl events -subject=request/17
  npctl events -json -f | jq -c 'select(.code == "launch-failed")'

Exit codes: 0, or 1 on an error; 130 interrupted while it follows.` + daemonHelp,
		Flags: c.flags(
			&cli.BoolFlag{Name: "f", Aliases: []string{"follow"}, Destination: &c.follow, Usage: "print new events as they occur"},
			&stringFlag{cli.StringFlag{Name: "subject", Destination: &c.subject, Usage: "only events of a `SUBJECT`"}, subjects},
			&cli.IntFlag{Name: "limit", Destination: &c.limit, Value: 50, Validator: atLeast(1), Usage: "the newest `N` events"}),
		Action: c.run,
	}
}

func (c *eventsCommand) run(ctx context.Context, _ *cli.Command) error {
	return c.with(ctx, func(ctx context.Context, d *client.Client) error {
		past, err := d.Events(ctx, "", subjectOf(c.subject), c.limit)
		if err != nil {
			return err
		}
		for _, e := range past.Events {
			if err := c.printEvent(e); err != nil {
				return err
			}
		}
		if !c.follow {
			return nil
		}
		err = d.Follow(ctx, past.Next, subjectOf(c.subject), c.printEvent)
		if errors.Is(context.Cause(ctx), errSignal) {
			return exitCode(exitInterrupted)
		}
		return err
	})
}

// printEvent prints an event on one line.
func (c *eventsCommand) printEvent(e wire.Event) error {
	if c.json {
		return c.printJSONLine(e)
	}
	return c.ui.Print("%s", eventLineText(e))
}

// eventLineText formats an event for the terminal.
func eventLineText(e wire.Event) string {
	return e.Time.Local().Format(time.DateTime) + "  " + visibleLine(e.Subject) + "  " + visibleLine(strings.ReplaceAll(e.Text, "\n", " "))
}

// subjectOf parses a subject in one of the forms node.17, node/17 or diskimage.debian.
func subjectOf(text string) string {
	kind, name, found := strings.Cut(text, "/")
	if !found {
		kind, name, _ = strings.Cut(text, ".")
	}
	switch kind {
	case "diskimage", "zuul_image":
		kind = "image"
	case "node", "request":
		name = idOf("", name)
	}
	if name == "" {
		return text
	}
	return kind + "/" + name
}
