package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/resources"
)

const imageShowDescription = `Shows the details of an image: its configuration, every build with its files and their size, every
upload with the number of nodes booted from it, failures with their logs, and the steps of the next
plan. No cloud is queried.

Examples:
  npctl image show debian
  npctl image show -json debian | jq -r '.images[0].uploads[] | select(.current) | .cloud_id'

Exit codes: 0, or 1 on an error or when there is no such image.`

func newImageShowCommand(a *app) *cli.Command {
	c := &imageCommand{app: a}
	return &cli.Command{
		Name: "show", Usage: "show the details of an image", ArgsUsage: "NAME", Description: imageShowDescription,
		Flags: append([]cli.Flag{c.jsonFlag()}, c.flags()...), Action: c.show,
	}
}

func (c *imageCommand) show(ctx context.Context, cmd *cli.Command) error {
	name, err := oneImage(cmd)
	if err != nil {
		return err
	}
	world, err := c.loadState(ctx, c.variableOptions, fullDetail)
	if err != nil {
		return err
	}
	if !c.json {
		c.warnConfigError(world)
	}
	ref, err := findImage(world.Refs(), name)
	if err != nil {
		return err
	}
	facts := world.Image(ref)
	if c.json {
		return c.ui.printJSON(document(world, []inspect.Image{facts}))
	}
	w := tabwriter.NewWriter(c.ui.out, 0, 0, 2, ' ', 0)
	page := imagePage{w, &facts, time.Now()}
	page.head()
	page.builds()
	page.files()
	page.uploads()
	page.failures()
	page.notes()
	return outputError(w.Flush())
}

// oneImage returns the image name that a command has as its only argument.
func oneImage(cmd *cli.Command) (string, error) {
	if cmd.NArg() == 0 {
		return "", hint(errors.New(cmd.FullName()+" needs the name of an image"), "npctl image list shows the images")
	}
	return cmd.Args().First(), nil
}

// imagePage prints an image. It ignores errors of its writes, because Flush returns them.
type imagePage struct {
	w     io.Writer
	facts *inspect.Image
	now   time.Time
}

func (p imagePage) cells(cells ...string) { writeCells(p.w, cells) }

// section starts a table, separated from the text above it.
func (p imagePage) section(head ...string) {
	_, _ = io.WriteString(p.w, "\n")
	writeCells(p.w, head)
}

// none prints that a table has no rows.
func (p imagePage) none(what string) { _, _ = fmt.Fprintf(p.w, "\nNo %s.\n", what) }

func (p imagePage) builds() {
	if len(p.facts.Builds) == 0 {
		p.none("builds")
		return
	}
	p.section("BUILD", "STATE", "AGE", "TOOK", "FORMATS", "HOST", "VERSION")
	for i := range p.facts.Builds {
		b := &p.facts.Builds[i]
		p.cells(b.ID, string(b.State), age(b.Created, p.now), secondsText(b.Seconds), words(b.Formats()), b.Host, b.Version)
	}
}

func (p imagePage) files() {
	head := false
	for i := range p.facts.Builds {
		for _, f := range p.facts.Builds[i].Files {
			if !head {
				p.section("FILE", "FORMAT", "SIZE", "ON DISK")
				head = true
			}
			p.cells(f.Name, f.Format, sizeText(f.Size), onDiskText(f))
		}
	}
}

func onDiskText(f inspect.ImageFile) string {
	switch {
	case f.Missing:
		return "missing"
	case f.OnDisk != nil:
		return sizeText(*f.OnDisk)
	default:
		return ""
	}
}

func (p imagePage) uploads() {
	if len(p.facts.Uploads) == 0 {
		p.none("uploads")
		return
	}
	p.section("UPLOAD", "PROVIDER", "BUILD", "STATE", "AGE", "TOOK", "SIZE", "NODES", "CLOUD NAME", "CLOUD ID")
	for i := range p.facts.Uploads {
		u := &p.facts.Uploads[i]
		status := string(u.State)
		if u.Current {
			status += ", current"
		}
		p.cells(u.ID, u.Provider, short(u.Build), status, age(u.Created, p.now), secondsText(u.Seconds), sizeText(u.Size),
			fmt.Sprint(u.Nodes), u.Name, u.ExternalID)
	}
}

func (p imagePage) failures() {
	for i := range p.facts.Failures {
		f := &p.facts.Failures[i]
		_, _ = fmt.Fprintf(p.w, "\nThe %s failed%s %s ago (%s):\n  %s\n", visibleLine(failureOf(f)), timesText(f.Count), age(f.Time, p.now),
			f.Time.Local().Format(time.DateTime), visible(indented(f.Error)))
		if f.Kind == resources.FaultRejected {
			_, _ = io.WriteString(p.w, "  A retry cannot succeed before the cause is fixed.\n")
		}
		if f.Log != "" {
			_, _ = fmt.Fprintf(p.w, "  Log: %s (npctl image log %s -build=%s)\n", visibleLine(f.Log), visibleLine(p.facts.Name), short(f.Build))
		}
	}
}

// indented indents the further lines of an error.
func indented(text string) string {
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ")
}

func (p imagePage) notes() {
	for i, n := range p.facts.Notes {
		if i == 0 {
			_, _ = io.WriteString(p.w, "\n")
		}
		_, _ = fmt.Fprintf(p.w, "%s: %s (%s)\n", n.Severity, visibleLine(n.Text), n.Code)
	}
}

// secondsText formats a duration in seconds. It returns "" for 0, which means unknown.
func secondsText(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case seconds == 0:
		return ""
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Second).String()
	}
}
