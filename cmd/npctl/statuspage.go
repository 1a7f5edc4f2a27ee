package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/terminal"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan/render"
)

// statusRows is the maximum number of rows of each table on a page.
const statusRows = 15

// stateStyles maps states in tables to their colours.
var stateStyles = map[string]terminal.Style{
	"ok": terminal.StyleGood, "ready": terminal.StyleGood, "fulfilled": terminal.StyleGood, "error": terminal.StyleError, "failed": terminal.StyleError, "not looked at": terminal.StyleError,
	"frozen": terminal.StyleWarning, "standby": terminal.StyleWarning, "not served": terminal.StyleWarning, "going": terminal.StyleWarning, "delete": terminal.StyleError, "launch": terminal.StyleGood,
}

// statusPage adds the status of the daemon.
func statusPage(d statusDocument, b *terminal.Page) {
	s := &d.Status
	head := terminal.StyleStrong
	if !s.Ready {
		head = terminal.StyleError
	}
	if s.PID == 0 {
		b.Line(head, s.NotReady)
	} else {
		b.Line(head, fmt.Sprintf("npctl watch %s on %s (process %d), up %s, %s", s.Version, s.Host, s.PID, age(s.Started, s.Now), readiness(s)))
	}
	b.Line(terminal.StylePlain, "Requests  "+inspect.CountsText(s.Requests)+oldest(s))
	b.Line(terminal.StylePlain, fmt.Sprintf("Nodes     %s; %d free", inspect.CountsText(s.Nodes), s.Free))
	work := ""
	if s.PID != 0 {
		work = fmt.Sprintf(" %s running. Decided in %s.", text.Count(s.Running, "step", "steps"), time.Duration(s.PassSeconds*float64(time.Second)).Round(100*time.Microsecond))
	}
	b.Line(terminal.StylePlain, "Plan      "+s.Plan+work)
	if cost := render.CostSummary(s.Cost); cost != "" {
		b.Line(terminal.StylePlain, "Cost      "+cost)
	}
	if s.Shadow != nil {
		b.Line(terminal.StylePlain, "Shadow    "+inspect.CountsText(s.Shadow))
	}
	configurationLines(b, &s.Config, s.Now)
	for i, p := range s.Problems {
		if i == 5 {
			b.Line(terminal.StyleError, fmt.Sprintf("          ... and %s", text.Count(len(s.Problems)-i, "more problem", "more problems")))
			break
		}
		b.Line(terminal.StyleError, "Problem   "+oneLine(p, 200))
	}
	statusTable(b, []string{"PROVIDER", "STATE", "LISTED", "NODES", "INSTANCES", "CORES", "RAM GiB", "PROBLEM"}, d.Providers, func(p *wire.Provider) []string { return providerRow(p, s.Now) })
	statusTable(b, []string{"LABEL", "MIN READY", "FREE", "NODES", "WAITING", "OFFERED BY"}, d.Labels, labelRow)
	statusTable(b, []string{"DOING", "WHAT", "BECAUSE"}, d.Steps, func(st *wire.Step) []string { return []string{st.Action, st.Address, st.Text} })
	statusTable(b, []string{"WAITING", "STATE", "FOR", "PRIORITY", "LABELS", "REQUESTOR", "WHERE"}, longestFirst(d.Requests), func(r *wire.Request) []string {
		cells := requestRow(r, s.Now)
		return cells[:len(cells)-2] // without nodes and reason
	})
	if len(d.Events) > 0 {
		b.WriteString("\n")
		b.Line(terminal.StyleStrong, "EVENTS (times in "+s.Now.Local().Format("MST")+")")
		for _, e := range slices.Backward(d.Events) { // newest first: a page that is too long is cut off at the end
			text := visibleLine(e.Time.Local().Format(time.TimeOnly) + "  " + e.Subject + "  " + oneLine(e.Text, 300))
			if b.Live {
				text = terminal.Shorten(text, b.Columns)
			}
			b.Line(terminal.StylePlain, text)
		}
	}
}

// configurationLines adds lines about a rejected configuration, and about pending deletions of the current one.
func configurationLines(b *terminal.Page, c *wire.Configuration, now time.Time) {
	if c.Error != "" {
		b.Line(terminal.StyleError, fmt.Sprintf("Config    refused %s ago, the one of %s ago is in force: %s", age(c.RejectedAt, now), age(c.LoadedAt, now), oneLine(c.Error, 500)))
	}
	if c.ConsentRequired != "" {
		b.Line(terminal.StyleWarning, fmt.Sprintf("Held back %s: %s; npctl reload -allow-destroy permits that",
			text.Count(len(c.PendingDeletions), "deletion", "deletions"), oneLine(c.ConsentRequired, 500)))
	}
	if c.StateOutdated != "" {
		b.Line(terminal.StyleWarning, "State     "+oneLine(c.StateOutdated, 500))
	}
}

func readiness(s *wire.Status) string {
	switch {
	case s.SuspendedBy != "":
		return "parked for " + s.SuspendedBy
	case s.Ready:
		return "ready"
	default:
		return "not ready: " + s.NotReady
	}
}

func oldest(s *wire.Status) string {
	if s.OldestRequest.IsZero() {
		return ""
	}
	return fmt.Sprintf("; the oldest waits for %s", age(s.OldestRequest, s.Now))
}

// statusTable adds a table after an empty line. It limits the number of rows.
func statusTable[T any](out *terminal.Page, head []string, rows []T, cells func(*T) []string) {
	if len(rows) == 0 {
		return
	}
	out.WriteString("\n")
	out.Table(terminal.Rows(head, rows[:min(len(rows), statusRows)], cells))
	if more := len(rows) - statusRows; more > 0 {
		out.Line(terminal.StylePlain, fmt.Sprintf("... and %d more", more))
	}
}

func providerRow(p *wire.Provider, now time.Time) []string {
	state := "ok"
	switch {
	case !p.Served:
		state = "not served"
	case p.Leader != nil:
		state = "standby"
	case p.Frozen:
		state = "frozen"
	case !p.Queried:
		state = "not looked at"
	case p.Error != "":
		state = "error"
	case !p.Configured:
		state = "going"
	}
	problem := p.Error
	if p.Leader != nil {
		problem = "served by " + p.Leader.UserHost
	}
	if problem == "" && p.LaunchFailure != nil {
		problem = fmt.Sprintf("%s failed, last %s ago: %s", text.Count(p.LaunchFailure.Count, "launch", "launches"), age(p.LaunchFailure.Time, now), p.LaunchFailure.Error)
	}
	instances, cores, ram := quotaCells(p)
	return []string{p.Name, state, age(p.ListedAt, now), inspect.CountsText(p.Nodes), instances, cores, ram, oneLine(problem, problemLength)}
}

// quotaCells returns the used and the maximum amounts of a quota.
func quotaCells(p *wire.Provider) (instances, cores, ram string) {
	if p.Quota == nil {
		return "", "", ""
	}
	cell := func(used, limit int64) string {
		if limit < 0 {
			return fmt.Sprint(used)
		}
		return fmt.Sprintf("%d/%d", used, limit)
	}
	used, limit := p.Quota.Used, p.Quota.Limit
	gib := func(mib int64) int64 {
		if mib < 0 {
			return mib
		}
		return mib / 1024
	}
	return cell(used.Instances, limit.Instances), cell(used.Cores, limit.Cores), cell(gib(used.RAM), gib(limit.RAM))
}

func labelRow(l *wire.Label) []string {
	var where []string
	for _, o := range l.Offers {
		text := o.Provider + "/" + o.Pool
		if len(o.Problems) > 0 {
			text += " (problem)"
		}
		where = append(where, text)
	}
	return []string{l.Name, fmt.Sprint(l.MinReady), fmt.Sprint(l.Free), inspect.CountsText(l.Nodes), fmt.Sprint(l.Waiting), words(where)}
}

// longestFirst sorts requests by age, oldest first.
func longestFirst(requests []wire.Request) []wire.Request {
	return slices.SortedFunc(slices.Values(requests), func(a, b wire.Request) int { return a.Created.Compare(b.Created) })
}
