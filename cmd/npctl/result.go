package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/npctl/npctl/internal/terminal"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
)

// printResult lists the steps that did not complete and the remaining servers, and ends with the result line.
func (c *applyCommand) printResult(p plan.Plan, r reconcile.Result, took time.Duration) error {
	c.failures(r)
	c.leftovers(r)
	return c.ui.Print("%s", terminal.WrapWords(resultSentence(c.operation, p, r)+tookText(took), c.ui.OutWidth()))
}

func (c *applyCommand) failures(r reconcile.Result) {
	if len(r.Failed)+len(r.Interrupted)+len(r.Skipped) == 0 {
		return
	}
	c.ui.Message("")
	for _, f := range r.Failed {
		c.ui.Error("Failed:", "%s: %s", visibleLine(stepTitle(f.Step)), visible(f.Err.Error()))
	}
	for _, f := range r.Interrupted {
		c.ui.Warning("Interrupted:", "%s", visibleLine(stepTitle(f.Step)))
	}
	const shown = 30
	for i, f := range r.Skipped {
		if i == shown {
			c.ui.Message("... and %d more skipped", len(r.Skipped)-shown)
			break
		}
		c.ui.Warning("Skipped:", "%s: %s", visibleLine(stepTitle(f.Step)), visible(f.Err.Error()))
	}
	c.ui.Message("")
}

// leftovers prints a warning for each server of a failed launch attempt that is not deleted yet.
func (c *applyCommand) leftovers(r reconcile.Result) {
	for _, l := range r.Undeleted {
		c.ui.Warning("Warning:", "%s", visible(undeletedText(l)))
	}
	if len(r.Undeleted) > 0 {
		c.ui.Message("")
	}
}

// undeletedText describes a remaining server.
func undeletedText(l reconcile.Undeleted) string {
	text := "the server"
	if l.Server != "" {
		text = "server " + l.Server
	}
	text += fmt.Sprintf(" of node %s in provider %s, left by a failed launch attempt, is not deleted yet", l.Node, l.Provider)
	if l.Err != nil {
		text += ": " + firstLine(l.Err)
	}
	return text + "; the next apply, or npctl watch, deletes it"
}

// resultSentence returns the result line, such as "Apply complete: 1 built, 1 uploaded, 2 launched, 0 deleted."
func resultSentence(operation string, p plan.Plan, r reconcile.Result) string {
	counts := plan.Plan{Steps: r.Done}.Summary()
	var parts []string
	for _, kind := range plan.ActionKinds() {
		if n := counts.Count(kind.Action); kind.Past != "" && (n > 0 || kind.Always) {
			parts = append(parts, fmt.Sprintf("%d %s", n, kind.Past))
		}
	}
	verb := strings.ToUpper(operation[:1]) + operation[1:]
	if r.Err() == nil {
		return fmt.Sprintf("%s complete: %s.", verb, strings.Join(parts, ", "))
	}
	interrupted := ""
	if n := len(r.Interrupted); n > 0 {
		interrupted = fmt.Sprintf(", %d interrupted", n)
	}
	return fmt.Sprintf("%s incomplete: %s; %d failed%s, %d skipped of %s.", verb, strings.Join(parts, ", "),
		len(r.Failed), interrupted, len(r.Skipped), text.Count(len(p.Steps), "step", "steps"))
}

// stepTitle returns the action of a step and its object.
func stepTitle(s plan.Step) string {
	title := string(s.Action) + " " + string(s.Address)
	switch {
	case s.Kind == plan.KindConvert:
		title += " to " + s.Format
	case s.Thing == plan.ThingBuild && s.Kind != plan.KindBuild:
		title += " build " + short(s.Build)
	case s.Kind == plan.KindLaunch && s.Record.ID == "":
		if i := strings.LastIndexByte(s.ID, '#'); i >= 0 {
			title += " " + s.ID[i:]
		}
	case s.Thing == plan.ThingUpload && s.Record.ID != "":
		title += " upload " + s.Record.ID
	case s.Thing == plan.ThingRecord:
		title = string(s.Action) + " the record of " + string(s.Address)
	}
	return title
}

// short returns the abbreviated form of a build ID.
func short(id string) string { return id[:min(8, len(id))] }
