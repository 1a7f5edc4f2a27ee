package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/internal/terminal"
	"github.com/npctl/npctl/internal/text"
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
		Name: "show", Usage: "show the details of an image", ArgsUsage: "NAME", Description: imageShowDescription, Metadata: takes(imageNames),
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
		return c.printDocument(document(world, []inspect.Image{facts}))
	}
	page := imagePage{c.ui.WidePage(), &facts, time.Now()}
	page.head()
	page.builds()
	page.files()
	page.uploads()
	page.failures()
	page.launches()
	page.notes()
	return c.ui.Write(page.String())
}

// oneImage returns the image name that a command has as its only argument.
func oneImage(cmd *cli.Command) (string, error) {
	if cmd.NArg() == 0 {
		return "", hint(errors.New(cmd.FullName()+" needs the name of an image"), "npctl image list shows the images")
	}
	return cmd.Args().First(), nil
}

// imagePage prints an image.
type imagePage struct {
	*terminal.Page
	facts *inspect.Image
	now   time.Time
}

// section adds a table after an empty line, or states that there is none if it has a name.
func (p *imagePage) section(rows [][]string, name string) {
	switch {
	case len(rows) > 1:
		p.WriteString("\n")
		p.Table(rows)
	case name != "":
		p.WriteString("\nNo " + name + ".\n")
	}
}

func (p *imagePage) builds() {
	p.section(terminal.Rows([]string{"BUILD", "STATE", "AGE", "TOOK", "FORMATS", "HOST", "VERSION"}, p.facts.Builds, func(b *inspect.ImageBuild) []string {
		return []string{b.ID, string(b.State), age(b.Created, p.now), secondsText(b.Seconds), words(b.Formats()), b.Host, b.Version}
	}), "builds")
}

func (p *imagePage) files() {
	rows := [][]string{{"FILE", "FORMAT", "SIZE", "ON DISK"}}
	for i := range p.facts.Builds {
		for _, f := range p.facts.Builds[i].Files {
			rows = append(rows, []string{f.Name, f.Format, text.Bytes(f.Size), onDiskText(f)})
		}
	}
	p.section(rows, "")
}

func onDiskText(f inspect.ImageFile) string {
	switch {
	case f.Missing:
		return "missing"
	case f.OnDisk != nil:
		return text.Bytes(*f.OnDisk)
	default:
		return ""
	}
}

func (p *imagePage) uploads() {
	head := []string{"UPLOAD", "PROVIDER", "BUILD", "STATE", "AGE", "TOOK", "SIZE", "NODES", "CLOUD NAME", "CLOUD ID"}
	p.section(terminal.Rows(head, p.facts.Uploads, func(u *inspect.ImageUpload) []string {
		status := string(u.State)
		if u.Current {
			status += ", current"
		}
		if u.Untested {
			status += ", not validated"
		}
		if u.Rollout > 0 {
			status += fmt.Sprintf(", rollout %d %%", u.Rollout)
		}
		if l := u.Launches; l != nil {
			status += launchesText(l)
		}
		return []string{u.ID, u.Provider, short(u.Build), status, age(u.Created, p.now), secondsText(u.Seconds), text.Bytes(u.Size),
			fmt.Sprint(u.Nodes), u.Name, u.ExternalID}
	}), "uploads")
}

func (p *imagePage) failures() {
	for i := range p.facts.Failures {
		f := &p.facts.Failures[i]
		fmt.Fprintf(p, "\nThe %s failed%s %s ago (%s):\n  %s\n", visibleLine(failureOf(f)), timesText(f.Count), age(f.Time, p.now),
			f.Time.Local().Format(time.DateTime), visible(indented(f.Error)))
		if f.Kind == resources.FaultRejected {
			p.WriteString("  A retry cannot succeed before the cause is fixed.\n")
		}
		if f.Log != "" {
			fmt.Fprintf(p, "  Log: %s (npctl image log %s -build=%s)\n", visibleLine(f.Log), visibleLine(p.facts.Name), short(f.Build))
		}
	}
}

// launchesText returns the decisions and failures of launches, each after a comma.
func launchesText(l *inspect.ImageLaunches) (all string) {
	if l.Pinned != nil {
		all += ", pinned"
	}
	if l.Rejected != nil {
		all += ", rejected"
	}
	if !l.Validated.IsZero() {
		all += ", validated"
	}
	if l.Failures > 0 {
		all += ", " + text.Count(l.Failures, "launch failed", "launches failed")
	}
	return all
}

// launches describes the failed launches from uploads.
func (p *imagePage) launches() {
	for i := range p.facts.Uploads {
		u := &p.facts.Uploads[i]
		if l := u.Launches; l != nil && l.Failures > 0 {
			fmt.Fprintf(p, "\n%s in a row from build %s in %s failed, the last %s ago (%s):\n  %s\n", text.Count(l.Failures, "launch", "launches"), short(u.Build), u.Provider,
				age(l.Failed, p.now), l.Failed.Local().Format(time.DateTime), visible(indented(l.Error)))
		}
	}
}

// indented indents the further lines of an error.
func indented(text string) string {
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ")
}

func (p *imagePage) notes() {
	for i, n := range p.facts.Notes {
		if i == 0 {
			p.WriteString("\n")
		}
		fmt.Fprintf(p, "%s: %s (%s)\n", n.Severity, visibleLine(n.Text), n.Code)
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
