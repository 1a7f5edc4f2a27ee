package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/urfave/cli/v3"
	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch/httpapi/client"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// statusCommand implements npctl status.
type statusCommand struct {
	daemonCommand
	once  bool
	every time.Duration
}

// statusDocument is the document that npctl status prints with -json, and the content of its page.
type statusDocument struct {
	FormatVersion string          `json:"format_version"`
	Status        wire.Status     `json:"status"`
	Providers     []wire.Provider `json:"providers"`
	Labels        []wire.Label    `json:"labels"`
	Steps         []wire.Step     `json:"steps"`
	Requests      []wire.Request  `json:"requests"` // waiting requests
	Events        []wire.Event    `json:"events"`
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
		return c.ui.printJSON(now)
	case c.once || !c.ui.outTerm() || now.Status.PID == 0:
		_, err := io.WriteString(c.ui.out, statusPage(now, c.ui.page()))
		return outputError(err)
	}
	return c.with(ctx, func(ctx context.Context, d *client.Client) error { return c.follow(ctx, d, now) })
}

// status returns the content of a page from the stored state.
func (w imageState) status() statusDocument {
	doc := statusDocument{FormatVersion: jsonVersion, Status: w.Status(w.Next), Labels: w.Labels(), Steps: []wire.Step{},
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
	doc.FormatVersion = jsonVersion
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

// The page is drawn on the alternate screen of the terminal, so that the previous content reappears at the end.
const (
	alternateScreen = "\x1b[?1049h\x1b[?25l"
	primaryScreen   = "\x1b[?25h\x1b[?1049l"
	topLeft         = "\x1b[H"
	clearLine       = "\x1b[K"
	clearBelow      = "\x1b[J"
)

// follow redraws the page until ctx is done. It waits for a daemon that does not respond.
func (c *statusCommand) follow(ctx context.Context, d *client.Client, now statusDocument) error {
	keys, restore := c.keys()
	leave := sync.OnceFunc(func() {
		_, _ = io.WriteString(c.ui.out, primaryScreen) // an error cannot be reported anywhere
		restore()
	})
	defer leave()
	c.ui.onLeave(leave)
	_, _ = io.WriteString(c.ui.out, alternateScreen)
	c.ui.onInterrupt(func() {})
	defer c.ui.onInterrupt(nil)
	trouble := ""
	for {
		if err := c.draw(now, trouble); err != nil {
			return err
		}
		select {
		case <-time.After(c.every):
		case key := <-keys:
			if leaves(key) {
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

// draw draws the page in the size of the terminal.
func (c *statusCommand) draw(now statusDocument, trouble string) error {
	columns, rows, err := term.GetSize(int(c.ui.outFile.Fd()))
	if err != nil {
		columns, rows = 80, 24
	}
	text := statusPage(now, &page{columns: columns, color: c.ui.outColor, live: true})
	if trouble != "" {
		notice := page{columns: columns, color: c.ui.outColor}
		notice.line(styleError, "No response; showing the last status: "+trouble)
		text = notice.String() + text
	}
	foot := "q or ^C to leave"
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if most := max(rows-1, 1); len(lines) > most {
		foot += fmt.Sprintf("; %d more lines: npctl status -once", len(lines)-most)
		lines = lines[:most]
	}
	lines = append(lines, paint(c.ui.outColor, styleFaint, runewidth.Truncate(foot, columns, "…")))
	var b bytes.Buffer
	b.WriteString(topLeft)
	for i, line := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		if !strings.Contains(line, "\x1b") { // a word may be wider than the screen
			line = runewidth.Truncate(line, columns, "…")
		}
		b.WriteString(line + clearLine)
	}
	b.WriteString(clearBelow)
	_, err = c.ui.out.Write(b.Bytes())
	return outputError(err)
}

// keys returns a channel of the pressed keys, without line buffering and echo, until restore is called. ^C is a key in
// that mode.
func (c *statusCommand) keys() (pressed <-chan byte, restore func()) {
	keys := make(chan byte)
	in, _ := c.ui.in.(*os.File)
	if !c.ui.inTerm {
		return keys, func() {}
	}
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return keys, func() {}
	}
	go func() { // ends with the process, as the read does
		key := make([]byte, 1)
		for {
			if n, err := in.Read(key); err != nil || n == 0 {
				return
			}
			keys <- key[0]
		}
	}()
	return keys, func() { _ = term.Restore(int(in.Fd()), before) }
}

// leaves reports whether a key closes the page: q, ^C or ^D.
func leaves(key byte) bool { return strings.IndexByte("qQ\x03\x04", key) >= 0 }
