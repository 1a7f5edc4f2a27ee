package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
)

// pastWords are the actions in the order in which a result tells them; those that are always told come even with 0.
var pastWords = []struct {
	action plan.Action
	word   string
	always bool
}{
	{plan.ActionBuild, "built", true},
	{plan.ActionConvert, "converted", false},
	{plan.ActionUpload, "uploaded", true},
	{plan.ActionLaunch, "launched", true},
	{plan.ActionRegister, "registered", false},
	{plan.ActionUpdate, "updated", false},
	{plan.ActionForget, "forgotten", false},
	{plan.ActionUnregister, "unregistered", false},
	{plan.ActionDelete, "deleted", true},
}

// tell lists what was not done and what is left, and ends with one line about what was done.
func (c *applyCommand) tell(p plan.Plan, r reconcile.Result, took time.Duration) error {
	c.failures(r)
	c.leftovers(r)
	return c.ui.print("%s", wrapWords(resultSentence(c.operation, p, r)+tookText(took), c.ui.outWidth()))
}

func (c *applyCommand) failures(r reconcile.Result) {
	if len(r.Failed)+len(r.Interrupted)+len(r.Skipped) == 0 {
		return
	}
	c.ui.talk("")
	for _, f := range r.Failed {
		c.ui.talk("%s %s: %s", c.ui.style(styleError, "Failed:"), visibleLine(stepTitle(f.Step)), visible(f.Err.Error()))
	}
	for _, f := range r.Interrupted {
		c.ui.talk("%s %s", c.ui.style(styleWarning, "Interrupted:"), visibleLine(stepTitle(f.Step)))
	}
	const shown = 30
	for i, f := range r.Skipped {
		if i == shown {
			c.ui.talk("... and %d more skipped", len(r.Skipped)-shown)
			break
		}
		c.ui.talk("%s %s: %s", c.ui.style(styleWarning, "Skipped:"), visibleLine(stepTitle(f.Step)), visible(f.Err.Error()))
	}
	c.ui.talk("")
}

// leftovers names the servers of failed launch attempts that are not deleted yet.
func (c *applyCommand) leftovers(r reconcile.Result) {
	for _, l := range r.Left {
		c.ui.talk("%s %s", c.ui.style(styleWarning, "Warning:"), visible(leftText(l)))
	}
	if len(r.Left) > 0 {
		c.ui.talk("")
	}
}

// leftText is a leftover in words.
func leftText(l reconcile.Left) string {
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

// resultSentence is the last line, such as "Apply complete: 1 built, 1 uploaded, 2 launched, 0 deleted."
func resultSentence(operation string, p plan.Plan, r reconcile.Result) string {
	counts := plan.Plan{Steps: r.Done}.Summary()
	var parts []string
	for _, w := range pastWords {
		if n := counts.Count(w.action); n > 0 || w.always {
			parts = append(parts, fmt.Sprintf("%d %s", n, w.word))
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
		len(r.Failed), interrupted, len(r.Skipped), countWord(len(p.Steps), "step", "steps"))
}

// stepTitle says what a step does to what.
func stepTitle(s plan.Step) string {
	title := string(s.Action) + " " + string(s.Address)
	switch {
	case s.Action == plan.ActionConvert:
		title += " to " + s.Format
	case s.Thing == plan.ThingBuild && s.Action != plan.ActionBuild:
		title += " build " + short(s.Build)
	case s.Action == plan.ActionLaunch && s.Record.ID == "":
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

// short is the part of a build id that people compare.
func short(id string) string { return id[:min(8, len(id))] }

// joinWords lists words for people.
func joinWords(words []string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
	return strings.Join(words, "")
}
