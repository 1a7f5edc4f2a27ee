package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// head prints the summary above the tables.
func (p *imagePage) head() {
	f := p.facts
	var rows [][2]string
	row := func(name, text string) { rows = append(rows, [2]string{name, text}) }
	if s := f.Settings; s != nil {
		row("Image", fmt.Sprintf("%s, made by %s (%s)", f.Address, s.Builder, s.Source))
		row("Formats", formatsText(f))
		row("Keeps", keepsText(s))
		row("Next build", p.nextBuild())
	} else {
		row("Image", f.Address+", not configured")
	}
	row("Paused", pausedText(f))
	if f.Protected {
		row("Protected", "prevent_destroy")
	}
	for _, provider := range f.Providers {
		row("In "+provider.Name, providerText(&provider, f))
	}
	row("Next plan", nextPlanText(f.Next))
	p.Facts(rows)
}

func formatsText(f *inspect.Image) string {
	var parts []string
	for _, format := range f.Settings.Formats {
		var by []string
		for _, p := range f.Providers {
			if p.Wanted && p.Format == format {
				by = append(by, p.Name)
			}
		}
		if len(by) > 0 {
			format += " (for " + text.And(by) + ")"
		}
		parts = append(parts, format)
	}
	if len(parts) == 0 {
		return "none, so it is not built: no provider boots a label from it, and it has no formats of its own"
	}
	return strings.Join(parts, ", ")
}

func keepsText(s *inspect.ImageSettings) string {
	keeps := text.Count(s.Keep, "build", "builds")
	if s.DeleteAfterUpload {
		keeps += "; files go once every provider has them"
	}
	return keeps
}

// nextBuild returns when the next build is due: now if the next plan builds the image and no failure delays that, else the
// time that rebuild_age sets.
func (p *imagePage) nextBuild() string {
	f := p.facts
	for _, s := range f.Next {
		if s.Action == plan.ActionBuild && f.Retry != nil {
			return fmt.Sprintf("%s, in %s, after the failure; npctl apply does not wait: %s", f.Retry.Local().Format(time.DateTime), until(p.now, *f.Retry), s.Text)
		}
		if s.Action == plan.ActionBuild {
			return "now: " + s.Text
		}
	}
	if f.Due == nil {
		return p.undated()
	}
	when := fmt.Sprintf("%s, in %s", f.Due.Local().Format(time.DateTime), until(p.now, *f.Due))
	if !f.Due.After(p.now) {
		when = "due since " + f.Due.Local().Format(time.DateTime)
	}
	when += fmt.Sprintf(" (every %s)", durationText(time.Duration(f.Settings.RebuildAge*float64(time.Second))))
	if f.Pause != nil {
		when += ", but it is paused"
	}
	return when
}

// undated returns when the next build is due for an image without rebuild_age.
func (p *imagePage) undated() string {
	switch {
	case p.facts.Pause != nil:
		return "none while it is paused"
	case len(p.facts.Settings.Formats) == 0:
		return "none"
	case p.facts.Kind == resources.ZuulImage:
		return "when its source has a newer one"
	default:
		return "when one of its inputs changes"
	}
}

func pausedText(f *inspect.Image) string {
	if f.Pause == nil {
		return "no"
	}
	var by []string
	if f.Pause.Command {
		text := "by command"
		if f.Pause.Reason != "" {
			text += ": " + f.Pause.Reason
		}
		by = append(by, text)
	}
	if f.Pause.Configuration {
		by = append(by, fmt.Sprintf("in the configuration (%s)", f.Settings.Source))
	}
	return strings.Join(by, "; ")
}

// providerText returns the build from which new nodes in a provider boot.
func providerText(p *inspect.ImageProvider, f *inspect.Image) string {
	var text string
	switch {
	case p.Upload == "":
		text = "nothing yet"
	case p.Newest:
		text = "the newest build (" + short(p.Build) + ")"
	case f.Newest == nil:
		text = "build " + short(p.Build)
	default:
		text = fmt.Sprintf("an older build (%s), not yet %s", short(p.Build), short(f.Newest.ID))
	}
	if p.Paused {
		text += "; uploads are paused"
	}
	if f.Configured && !p.Wanted {
		text += "; no label boots from it any more"
	}
	return text
}

// nextPlanText counts the steps of the next plan for the image.
func nextPlanText(steps []inspect.ImageStep) string {
	if len(steps) == 0 {
		return "changes nothing here"
	}
	var order []string
	counts := map[string]int{}
	for _, s := range steps {
		key := string(s.Action) + " " + string(s.Thing)
		if s.Action == plan.ActionBuild || s.Action == plan.ActionUpload || s.Action == plan.ActionConvert {
			key = string(s.Action)
		}
		if key += " (" + s.Text + ")"; counts[key] == 0 {
			order = append(order, key)
		}
		counts[key]++
	}
	for i, key := range order {
		if n := counts[key]; n > 1 {
			order[i] = fmt.Sprintf("%d × %s", n, key)
		}
	}
	return strings.Join(order, ", ")
}
