package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// statusRows is the maximum number of rows of each table on a page.
const statusRows = 15

// page builds a text for the terminal. It escapes all values.
type page struct {
	strings.Builder
	columns int // 0: no limit
	color   bool
	live    bool // redrawn repeatedly, so it is limited to the size of the screen
}

// line adds a line. It wraps a line that is wider than the screen between words.
func (p *page) line(s style, text string) {
	p.WriteString(paint(p.color && s != stylePlain, s, wrapWords(visibleLine(text), p.columns)) + "\n")
}

// stateStyles maps states in tables to their colours.
var stateStyles = map[string]style{
	"ok": styleGood, "ready": styleGood, "fulfilled": styleGood, "error": styleError, "failed": styleError, "not looked at": styleError,
	"frozen": styleWarning, "standby": styleWarning, "not served": styleWarning, "going": styleWarning, "delete": styleError, "launch": styleGood,
}

// table adds rows, the first of which is the head. On a narrow screen it omits the columns named in spare first.
func (p *page) table(rows [][]string, spare ...string) {
	for i, row := range fitTable(rows, p.columns, spare...) {
		for j, cell := range row {
			s, known := stateStyles[strings.TrimRight(cell, " ")]
			if i == 0 {
				s, known = styleStrong, true
			}
			if j == len(row)-1 {
				cell = strings.TrimRight(cell, " ")
			}
			p.WriteString(paint(p.color && known, s, cell))
		}
		p.WriteString("\n")
	}
}

// statusPage returns the status of the daemon as text.
func statusPage(d statusDocument, b *page) string {
	s := &d.Status
	head := styleStrong
	if !s.Ready {
		head = styleError
	}
	if s.PID == 0 {
		b.line(head, s.NotReady)
	} else {
		b.line(head, fmt.Sprintf("npctl watch %s on %s (process %d), up %s, %s", s.Version, s.Host, s.PID, age(s.Started, s.Now), readiness(s)))
	}
	b.line(stylePlain, "Requests  "+inspect.CountsText(s.Requests)+oldest(s))
	b.line(stylePlain, fmt.Sprintf("Nodes     %s; %d free", inspect.CountsText(s.Nodes), s.Free))
	work := ""
	if s.PID != 0 {
		work = fmt.Sprintf(" %s running. Decided in %s.", text.Count(s.Running, "step", "steps"), time.Duration(s.PassSeconds*float64(time.Second)).Round(100*time.Microsecond))
	}
	b.line(stylePlain, "Plan      "+s.Plan+work)
	if s.Shadow != nil {
		b.line(stylePlain, "Shadow    "+inspect.CountsText(s.Shadow))
	}
	configurationLines(b, &s.Config, s.Now)
	for i, p := range s.Problems {
		if i == 5 {
			b.line(styleError, fmt.Sprintf("          ... and %s", text.Count(len(s.Problems)-i, "more problem", "more problems")))
			break
		}
		b.line(styleError, "Problem   "+oneLine(p, 200))
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
		b.line(styleStrong, "EVENTS (times in "+s.Now.Local().Format("MST")+")")
		for _, e := range slices.Backward(d.Events) { // newest first: a page that is too long is cut off at the end
			text := visibleLine(e.Time.Local().Format(time.TimeOnly) + "  " + e.Subject + "  " + oneLine(e.Text, 300))
			if b.live {
				text = runewidth.Truncate(text, b.columns, "…")
			}
			b.line(stylePlain, text)
		}
	}
	return b.String()
}

// configurationLines adds lines about a rejected configuration, and about pending deletions of the current one.
func configurationLines(b *page, c *wire.Configuration, now time.Time) {
	if c.Error != "" {
		b.line(styleError, fmt.Sprintf("Config    refused %s ago, the one of %s ago is in force: %s", age(c.RejectedAt, now), age(c.LoadedAt, now), oneLine(c.Error, 500)))
	}
	if c.ConsentRequired != "" {
		b.line(styleWarning, fmt.Sprintf("Held back %s: %s; npctl reload -allow-destroy permits that",
			text.Count(len(c.PendingDeletions), "deletion", "deletions"), oneLine(c.ConsentRequired, 500)))
	}
	if c.StateOutdated != "" {
		b.line(styleWarning, "State     "+oneLine(c.StateOutdated, 500))
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
func statusTable[T any](out *page, head []string, rows []T, cells func(*T) []string) {
	if len(rows) == 0 {
		return
	}
	out.WriteString("\n")
	table := [][]string{head}
	for i := range rows[:min(len(rows), statusRows)] {
		table = append(table, cells(&rows[i]))
	}
	out.table(table)
	if more := len(rows) - statusRows; more > 0 {
		out.line(stylePlain, fmt.Sprintf("... and %d more", more))
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
