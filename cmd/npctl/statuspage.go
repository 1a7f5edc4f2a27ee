package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/npctl/npctl/watch/httpapi/wire"
)

// statusRows is how many lines of each table a page has.
const statusRows = 15

// page collects lines for people. What it has is fit for a terminal.
type page struct {
	strings.Builder
	columns int // 0: no limit
	color   bool
	live    bool // it is drawn again and again, so that there is only room for what fits
}

// line adds a line; one that is wider than the screen breaks between words.
func (p *page) line(s style, text string) {
	p.WriteString(paint(p.color && s != stylePlain, s, wrapWords(visibleLine(text), p.columns)) + "\n")
}

// stateStyles colour the states in tables.
var stateStyles = map[string]style{
	"ok": styleGood, "ready": styleGood, "fulfilled": styleGood, "error": styleError, "failed": styleError, "not looked at": styleError,
	"frozen": styleWarning, "standby": styleWarning, "not served": styleWarning, "going": styleWarning, "delete": styleError, "launch": styleGood,
}

// table adds rows, the first of which is the head.
func (p *page) table(rows [][]string) {
	for i, row := range fitTable(rows, p.columns) {
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

// statusPage is the daemon at a glance, as text.
func statusPage(d statusDocument, b *page) string {
	s := &d.Status
	head := styleStrong
	if !s.Ready {
		head = styleError
	}
	b.line(head, fmt.Sprintf("npctl watch %s on %s (process %d), up %s, %s", s.Version, s.Host, s.PID, age(s.Started, s.Now), readiness(s)))
	b.line(stylePlain, "Requests  "+stateCounts(s.Requests)+oldest(s))
	b.line(stylePlain, fmt.Sprintf("Nodes     %s; %d free", stateCounts(s.Nodes), s.Free))
	b.line(stylePlain, fmt.Sprintf("Plan      %s %s running. Decided in %s.", s.Planned, countWord(s.Running, "step", "steps"),
		time.Duration(s.PassTook*float64(time.Second)).Round(100*time.Microsecond)))
	if s.Shadow != nil {
		b.line(stylePlain, "Shadow    "+stateCounts(s.Shadow))
	}
	configurationLines(b, &s.Config, s.Now)
	for i, p := range s.Problems {
		if i == 5 {
			b.line(styleError, fmt.Sprintf("          ... and %s", countWord(len(s.Problems)-i, "more problem", "more problems")))
			break
		}
		b.line(styleError, "Problem   "+oneLine(p, 200))
	}
	statusTable(b, []string{"PROVIDER", "STATE", "LOOKED AT", "NODES", "INSTANCES", "CORES", "RAM GiB", "PROBLEM"}, d.Providers, func(p *wire.Provider) []string { return providerRow(p, s.Now) })
	statusTable(b, []string{"LABEL", "MIN READY", "FREE", "NODES", "WAITING", "OFFERED BY"}, d.Labels, labelRow)
	statusTable(b, []string{"DOING", "WHAT", "BECAUSE"}, d.Steps, func(st *wire.Step) []string { return []string{st.Action, st.Address, st.Text} })
	statusTable(b, []string{"WAITING", "STATE", "FOR", "PRIORITY", "LABELS", "REQUESTOR", "WHERE"}, longestFirst(d.Requests), func(r *wire.Request) []string {
		cells := requestRow(r, s.Now)
		return cells[:len(cells)-2] // without nodes and reason
	})
	if len(d.Events) > 0 {
		b.WriteString("\n")
		b.line(styleStrong, "EVENTS (times in "+s.Now.Local().Format("MST")+")")
		for _, e := range slices.Backward(d.Events) { // the newest first: what does not fit is at the end
			text := visibleLine(e.Time.Local().Format(time.TimeOnly) + "  " + e.Subject + "  " + oneLine(e.Text, 300))
			if b.live {
				text = runewidth.Truncate(text, b.columns, "…")
			}
			b.line(stylePlain, text)
		}
	}
	return b.String()
}

// configurationLines tell of a configuration that was refused, and of what the one in force does not do.
func configurationLines(b *page, c *wire.Configuration, now time.Time) {
	if c.Error != "" {
		b.line(styleError, fmt.Sprintf("Config    refused %s ago, the one of %s ago is in force: %s", age(c.Refused, now), age(c.Taken, now), oneLine(c.Error, 500)))
	}
	if c.HeldBack != "" {
		b.line(styleWarning, fmt.Sprintf("Held back %s: %s; npctl reload -allow-destroy, if that is meant",
			countWord(len(c.Deletes), "deletion", "deletions"), oneLine(c.HeldBack, 500)))
	}
	if c.OldState != "" {
		b.line(styleWarning, "State     "+oneLine(c.OldState, 500))
	}
}

func readiness(s *wire.Status) string {
	switch {
	case s.Parked != "":
		return "parked for " + s.Parked
	case s.Ready:
		return "ready"
	default:
		return "not ready: " + s.NotReady
	}
}

func oldest(s *wire.Status) string {
	if s.OldestWaits.IsZero() {
		return ""
	}
	return fmt.Sprintf("; the oldest waits for %s", age(s.OldestWaits, s.Now))
}

// stateCounts is such as "2 ready, 1 in-use".
func stateCounts[T ~string](counts map[T]int) string {
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[state], state))
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

// statusTable adds a table behind an empty line; of many rows only the first.
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
	case p.StandsBy != nil:
		state = "standby"
	case p.Frozen:
		state = "frozen"
	case !p.Looked:
		state = "not looked at"
	case p.Error != "":
		state = "error"
	case !p.Configured:
		state = "going"
	}
	problem := p.Error
	if p.StandsBy != nil {
		problem = "served by " + p.StandsBy.Who
	}
	if problem == "" && p.Failing != nil {
		problem = fmt.Sprintf("%s failed, last %s ago: %s", countWord(p.Failing.Count, "launch", "launches"), age(p.Failing.Time, now), p.Failing.Error)
	}
	instances, cores, ram := quotaCells(p)
	return []string{p.Name, state, age(p.Listed, now), stateCounts(p.Nodes), instances, cores, ram, oneLine(problem, problemLength)}
}

// quotaCells show what is ours, what is used in all, and the limit.
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
	return []string{l.Name, fmt.Sprint(l.MinReady), fmt.Sprint(l.Free), stateCounts(l.Nodes), fmt.Sprint(l.Waiting), words(where)}
}

// longestFirst sorts requests by age.
func longestFirst(requests []wire.Request) []wire.Request {
	return slices.SortedFunc(slices.Values(requests), func(a, b wire.Request) int { return a.Created.Compare(b.Created) })
}
