package plan

import (
	"strconv"
	"strings"

	"github.com/npctl/npctl/internal/text"
)

// Summary counts the steps of the plan.
func (p Plan) Summary() Summary {
	s := Summary{Unchanged: p.Unchanged.Count(), Deferred: len(p.Deferred), InProgress: p.InProgress != nil, Problems: len(p.Problems) > 0}
	for i := range p.Steps {
		s.Add(p.Steps[i].Action)
	}
	return s
}

// Add counts one more step with the action.
func (s *Summary) Add(a Action) {
	s.Total++
	if kind, known := kindOf(a); known {
		*kind.count(s)++
	}
}

// Count returns the number of steps with the action.
func (s Summary) Count(a Action) int {
	if kind, known := kindOf(a); known {
		return *kind.count(&s)
	}
	return 0
}

// Empty reports whether the plan has no steps.
func (s Summary) Empty() bool { return s.Total == 0 }

// Merge adds the counts of the steps of another summary.
func (s *Summary) Merge(other Summary) {
	for _, kind := range actionKinds {
		*kind.count(s) += *kind.count(&other)
	}
	s.Total += other.Total
}

// String returns the last line of every printed plan: "No changes.", or a line such as "Plan: 1 to build, 1 to
// upload, 2 to launch, 0 to delete." These four actions always appear, the others only if their count is not 0. A
// plan with problems never prints "No changes.", and an incomplete plan prints the reason instead: "No known changes;
// 1 provider could not be listed.".
func (s Summary) String() string {
	why := s.Incomplete()
	switch {
	case s.Empty() && !s.Problems && why == "":
		return "No changes."
	case s.Empty() && !s.Problems:
		return "No known changes; " + why + "."
	}
	var b strings.Builder
	b.WriteString("Plan: ")
	first := true
	for _, kind := range actionKinds {
		n := *kind.count(&s)
		if n == 0 && !kind.Always {
			continue
		}
		if !first {
			b.WriteString(", ")
		}
		first = false
		b.WriteString(strconv.Itoa(n) + " to " + string(kind.Action))
	}
	if why != "" {
		b.WriteString("; " + why)
	}
	b.WriteByte('.')
	return b.String()
}

// Incomplete returns why the plan may not cover everything, or "".
func (s Summary) Incomplete() string {
	why := ""
	if s.Deferred > 0 {
		why = text.Count(s.Deferred, "provider", "providers") + " could not be listed"
	}
	switch {
	case s.InProgress && why != "":
		why += ", and another npctl is working"
	case s.InProgress:
		why = "another npctl is working"
	}
	return why
}
