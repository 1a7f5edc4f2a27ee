package main

import (
	"context"
	"errors"
	"time"

	"github.com/urfave/cli/v3"
	"golang.org/x/sync/errgroup"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/terminal"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch/httpapi/client"
)

// statusCommand implements npctl status.
type statusCommand struct {
	daemonCommand
	once  bool
	every time.Duration
}

// statusDocument is the document that npctl status prints with -json, and the content of its page.
type statusDocument struct {
	Status    wire.Status     `json:"status"`
	Providers []wire.Provider `json:"providers"`
	Labels    []wire.Label    `json:"labels"`
	Steps     []wire.Step     `json:"steps"`
	Requests  []wire.Request  `json:"requests"` // waiting requests
	Events    []wire.Event    `json:"events"`
}

func newStatusCommand(a *app) *cli.Command {
	c := &statusCommand{daemonCommand: daemonCommand{app: a}}
	return &cli.Command{
		Name: "status", Category: categoryDaemon, Usage: "show the status of npctl watch",
		Description: `Shows the status of npctl watch: providers and their quotas, labels, running steps, waiting requests, and recent
events. On a terminal it refreshes the page every second until q or ^C; elsewhere, or with -once, it prints the page
once. While npctl watch is not running, it prints the stored state once.

Examples:
  npctl status
  npctl status -once
  npctl status -json | jq '.status.requests'

Exit codes: 0, or 1 on an error.` + daemonHelp,
		Flags: c.flags(
			&cli.BoolFlag{Name: "once", Destination: &c.once, Usage: "print the page once"},
			&cli.DurationFlag{Name: "interval", Destination: &c.every, Value: time.Second, Validator: atLeast(100 * time.Millisecond), Usage: "refresh the page every `DURATION`"}),
		Action: c.run,
	}
}

func (c *statusCommand) run(ctx context.Context, _ *cli.Command) error {
	now, err := fetch(ctx, &c.daemonCommand, fetchStatus, c.storedFleet, func(w imageState) (statusDocument, error) {
		c.warnConfigError(w)
		return w.status(), nil
	})
	switch {
	case err != nil:
		return err
	case c.json:
		return c.printDocument(now)
	case c.once || !c.ui.OutTerm || now.Status.PID == 0:
		p := c.ui.Page()
		statusPage(now, p)
		return c.ui.Write(p.String())
	}
	return c.with(ctx, func(ctx context.Context, d *client.Client) error { return c.follow(ctx, d, now) })
}

// status returns the content of a page from the stored state.
func (w imageState) status() statusDocument {
	doc := statusDocument{Status: w.Status(w.Next), Labels: w.Labels(), Steps: []wire.Step{},
		Requests: all(w.Observed.Records.Requests, (*resources.Request).IsOpen, w.RequestViews()), Events: w.events("", statusEvents)}
	doc.Status.Version, doc.Status.Now, doc.Status.NotReady = version(), time.Now(), "npctl watch is not running"
	service := inspect.Service{}
	for _, p := range w.Observed.Records.Providers {
		if p.Frozen {
			service.Frozen = append(service.Frozen, p.Name)
		}
	}
	doc.Providers = w.Providers(service)
	for i := range doc.Providers {
		doc.Providers[i].Served, doc.Providers[i].Queried = false, false
	}
	return doc
}

// statusEvents is the number of events on a page.
const statusEvents = 15

// fetchStatus queries the daemon for the content of a page.
func fetchStatus(ctx context.Context, d *client.Client) (doc statusDocument, err error) {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) { doc.Status, err = d.Status(ctx); return err })
	group.Go(func() (err error) { doc.Providers, err = d.Providers(ctx); return err })
	group.Go(func() (err error) { doc.Labels, err = d.Labels(ctx); return err })
	group.Go(func() (err error) { doc.Steps, err = d.Steps(ctx); return err })
	group.Go(func() (err error) {
		doc.Requests, err = d.Requests(ctx, wire.RequestFilter{States: []string{"requested", "pending"}})
		doc.Requests = append([]wire.Request{}, doc.Requests...)
		return err
	})
	group.Go(func() error {
		events, err := d.Events(ctx, "", "", statusEvents)
		doc.Events = events.Events
		return err
	})
	return doc, group.Wait()
}

// follow redraws the page until ctx is done. It waits for a daemon that does not respond.
func (c *statusCommand) follow(ctx context.Context, d *client.Client, now statusDocument) error {
	screen := c.ui.OpenScreen()
	defer screen.Close()
	c.signals.interrupt.Set(func() {})
	defer c.signals.interrupt.Set(nil)
	trouble := ""
	for {
		if err := c.draw(screen, now, trouble); err != nil {
			return err
		}
		select {
		case <-time.After(c.every):
		case leaves := <-screen.Keys:
			if leaves {
				return nil
			}
			continue // redraw, which also adapts the page to a new window size
		case <-ctx.Done():
			return nil
		}
		next, err := fetchStatus(ctx, d)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			now, trouble = next, ""
		default:
			var no *client.Error
			if errors.As(err, &no) && no.Status/100 == 4 {
				return err
			}
			trouble = err.Error()
		}
	}
}

// draw draws the page, below a notice if the daemon does not respond.
func (c *statusCommand) draw(screen *terminal.Screen, now statusDocument, trouble string) error {
	p := screen.Page()
	if trouble != "" {
		p.Line(terminal.StyleError, "No response; showing the last status: "+trouble)
	}
	statusPage(now, p)
	return screen.Draw(p, "npctl status -once")
}
