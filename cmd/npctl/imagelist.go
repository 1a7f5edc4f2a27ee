package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/internal/terminal"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

const imageListDescription = `Shows every configured or recorded image: its builds, the age and formats of the newest ready build,
the number of providers in which that build is ready, the time of the next build, and the failures
since its last success. No cloud is queried.

"now" under NEXT BUILD means that npctl apply would build it. After a failure, npctl watch waits until the
displayed time, and npctl apply does not. Cloud images are not listed, since npctl does not build them.

Examples:
  npctl image list
  npctl image list -json | jq -r '.images[] | select(.failures != []) | .name'

Exit codes: 0, or 1 on an error.`

func newImageListCommand(a *app) *cli.Command {
	c := &imageCommand{app: a}
	return &cli.Command{
		Name: "list", Usage: "show every image in one line", Description: imageListDescription,
		Flags: append([]cli.Flag{c.jsonFlag()}, c.flags()...), Action: c.list,
	}
}

func (c *imageCommand) list(ctx context.Context, cmd *cli.Command) error {
	world, err := c.loadState(ctx, c.variableOptions, fullDetail)
	if err != nil {
		return err
	}
	facts := world.Images()
	if c.json {
		for i := range facts {
			facts[i].Builds, facts[i].Uploads = nil, nil
		}
		return c.printDocument(document(world, facts))
	}
	c.warnConfigError(world)
	if len(facts) == 0 {
		return c.ui.Print("No images.")
	}
	now := time.Now()
	return c.ui.Table(terminal.Rows([]string{"IMAGE", "KIND", "BUILDS", "NEWEST", "AGE", "FORMATS", "PROVIDERS", "PAUSED", "NEXT BUILD", "PROBLEM"}, facts,
		func(f *inspect.Image) []string { return imageRow(f, world.configError == nil, now) }), "FORMATS", "NEWEST", "KIND", "PROVIDERS", "PAUSED", "AGE")
}

// imageRow returns the table row of an image.
func imageRow(f *inspect.Image, configRead bool, now time.Time) []string {
	cells := []string{f.Name, string(f.Kind), countsText(f.Counts), "", "", "", "", pauseText(f.Pause), nextText(f, now), problemText(f, configRead, now)}
	if f.Newest != nil {
		cells[3], cells[4], cells[5] = short(f.Newest.ID), age(f.Newest.Since, now), words(f.Newest.Formats())
	}
	if n := len(f.Providers); n > 0 {
		cells[6] = fmt.Sprintf("%d of %d", newestIn(f.Providers), n)
	}
	return cells
}

func newestIn(providers []inspect.ImageProvider) (n int) {
	for _, p := range providers {
		if p.Newest {
			n++
		}
	}
	return n
}

// countsText returns a text such as "2 ready, 1 building".
func countsText(counts map[string]int) string {
	var parts []string
	for _, s := range []resources.State{resources.StateReady, resources.StateBuilding, resources.StateFailed, resources.StateDeleting} {
		if n := counts[string(s)]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	return strings.Join(parts, ", ")
}

func pauseText(p *inspect.ImagePause) string {
	switch {
	case p == nil:
		return "no"
	case p.Command && p.Configuration:
		return "both"
	case p.Command:
		return "by command"
	default:
		return "in the configuration"
	}
}

// nextText returns when the next build is due.
func nextText(f *inspect.Image, now time.Time) string {
	if f.Retry != nil {
		return "in " + until(now, *f.Retry)
	}
	for _, s := range f.Next {
		if s.Action == plan.ActionBuild {
			return "now"
		}
	}
	switch {
	case !f.Configured || f.Pause != nil:
		return ""
	case f.Due != nil && f.Due.After(now):
		return "in " + until(now, *f.Due)
	default:
		return ""
	}
}

// until returns the time until due, rounded to the nearest hour if it is more than an hour.
func until(now, due time.Time) string {
	if due.Sub(now) > time.Hour {
		due = due.Add(30 * time.Minute)
	}
	return age(now, due)
}

// problemLength is the maximum length of an error in a table, in characters.
const problemLength = 70

// problemText returns the newest failure or problem of an image.
func problemText(f *inspect.Image, configRead bool, now time.Time) string {
	if len(f.Failures) > 0 {
		failure := &f.Failures[0]
		text := fmt.Sprintf("%s failed%s %s ago", failureOf(failure), timesText(failure.Count), age(failure.Time, now))
		if failure.Error != "" {
			text += ": " + oneLine(headline(failure.Error), problemLength)
		}
		if more := len(f.Failures) - 1; more > 0 {
			text += fmt.Sprintf(" (and %d more)", more)
		}
		return text
	}
	for _, n := range f.Notes {
		if n.Code == "problem" {
			return oneLine(n.Text, problemLength)
		}
	}
	switch {
	case configRead && !f.Configured:
		return "not configured any more"
	case f.Settings != nil && len(f.Settings.Formats) == 0:
		return "no label boots from it"
	default:
		return ""
	}
}

// headline returns the first line of an error without the words that introduce further lines.
func headline(text string) string {
	line, _, more := strings.Cut(strings.TrimSpace(text), "\n")
	if i := strings.LastIndex(line, "; "); more && i > 0 && strings.HasSuffix(line, ":") {
		line = line[:i]
	}
	return line
}

// failureOf returns the operation that failed.
func failureOf(f *inspect.ImageFailure) string {
	if f.Provider != "" {
		return f.What + " to " + f.Provider
	}
	return f.What
}

func timesText(n int) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf(" %d times, last", n)
}

// oneLine returns the first line of a text, shortened to most characters.
func oneLine(text string, most int) string {
	line, _, more := strings.Cut(strings.TrimSpace(text), "\n")
	line = visibleLine(line)
	if runes := []rune(line); len(runes) > most {
		line, more = string(runes[:most-1]), true
	}
	if more {
		line += "…"
	}
	return line
}
