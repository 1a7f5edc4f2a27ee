package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/npctl/npctl/watch/httpapi/wire"
)

// statusRows is how many lines of each table a page has.
const statusRows = 15

// statusPage is the daemon at a glance, as text.
func statusPage(d statusDocument) string {
	var b strings.Builder
	s := &d.Status
	fmt.Fprintf(&b, "npctl watch %s on %s (process %d), up %s, %s\n", s.Version, s.Host, s.PID, age(s.Started, s.Now), visibleLine(readiness(s)))
	fmt.Fprintf(&b, "Requests  %s%s\n", stateCounts(s.Requests), oldest(s))
	fmt.Fprintf(&b, "Nodes     %s; %d free\n", stateCounts(s.Nodes), s.Free)
	fmt.Fprintf(&b, "Plan      %s %d steps run. Decided in %s.\n", s.Planned, s.Running, time.Duration(s.PassTook*float64(time.Second)).Round(100*time.Microsecond))
	if s.Shadow != nil {
		fmt.Fprintf(&b, "Shadow    %s\n", stateCounts(s.Shadow))
	}
	b.WriteString(configurationLines(&s.Config, s.Now))
	for i, p := range s.Problems {
		if i == 5 {
			fmt.Fprintf(&b, "          ... and %d more problems\n", len(s.Problems)-i)
			break
		}
		fmt.Fprintf(&b, "Problem   %s\n", oneLine(p, 200))
	}
	statusTable(&b, []string{"PROVIDER", "STATE", "LOOKED AT", "NODES", "INSTANCES", "CORES", "RAM GiB", "PROBLEM"}, d.Providers, func(p *wire.Provider) []string { return providerRow(p, s.Now) })
	statusTable(&b, []string{"LABEL", "MIN READY", "FREE", "NODES", "WAITING", "OFFERED BY"}, d.Labels, labelRow)
	statusTable(&b, []string{"DOING", "WHAT", "BECAUSE"}, d.Steps, func(st *wire.Step) []string { return []string{st.Action, st.Address, st.Text} })
	statusTable(&b, []string{"WAITING", "STATE", "FOR", "PRIORITY", "LABELS", "REQUESTOR", "WHERE"}, longestFirst(d.Requests), func(r *wire.Request) []string {
		cells := requestRow(r, s.Now)
		return cells[:len(cells)-1]
	})
	if len(d.Events) > 0 {
		b.WriteString("\n")
		for _, e := range slices.Backward(d.Events) { // the newest first: what does not fit is at the end
			fmt.Fprintf(&b, "%s  %s  %s\n", e.Time.Local().Format(time.TimeOnly), visibleLine(e.Subject), oneLine(e.Text, 300))
		}
	}
	return b.String()
}

// configurationLines tell of a configuration that was refused, and of what the one in force does not do.
func configurationLines(c *wire.Configuration, now time.Time) string {
	var b strings.Builder
	if c.Error != "" {
		fmt.Fprintf(&b, "Config    refused %s ago, the one of %s ago is in force: %s\n", age(c.Refused, now), age(c.Taken, now), oneLine(c.Error, 500))
	}
	if c.HeldBack != "" {
		fmt.Fprintf(&b, "Held back %s deletions: %s; npctl reload -allow-destroy, if that is meant\n", fmt.Sprint(len(c.Deletes)), oneLine(c.HeldBack, 500))
	}
	if c.OldState != "" {
		fmt.Fprintf(&b, "State     %s\n", oneLine(c.OldState, 500))
	}
	return b.String()
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
func statusTable[T any](out io.Writer, head []string, rows []T, cells func(*T) []string) {
	if len(rows) == 0 {
		return
	}
	_, _ = io.WriteString(out, "\n")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	writeCells(w, head)
	for i := range rows[:min(len(rows), statusRows)] {
		writeCells(w, cells(&rows[i]))
	}
	_ = w.Flush() // the writer is a buffer
	if more := len(rows) - statusRows; more > 0 {
		_, _ = fmt.Fprintf(out, "... and %d more\n", more)
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
		problem = fmt.Sprintf("%d launches failed, last %s ago: %s", p.Failing.Count, age(p.Failing.Time, now), p.Failing.Error)
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
