package plan

import (
	"slices"
	"strconv"
	"strings"

	"github.com/npctl/npctl/internal/text"
)

// Summary counts the steps of a plan by action.
type Summary struct {
	Build      int `json:"build"`
	Convert    int `json:"convert"`
	Upload     int `json:"upload"`
	Launch     int `json:"launch"`
	Register   int `json:"register"`
	Update     int `json:"update"`
	Serve      int `json:"serve"`
	Decline    int `json:"decline"`
	Forget     int `json:"forget"`
	Unregister int `json:"unregister"`
	Delete     int `json:"delete"`
	Total      int `json:"total"`     // all steps
	Unchanged  int `json:"unchanged"` // objects that match the desired state
	Deferred   int `json:"deferred"`  // providers that could not be listed
	// InProgress reports whether another process was working on the state.
	InProgress bool `json:"in_progress"`
	Problems   bool `json:"-"` // a problem prevents the plan from being applied
}

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
	if n := s.of(a); n != nil {
		*n++
	}
}

// of returns the counter of an action, or nil for an action that this npctl does not know.
func (s *Summary) of(a Action) *int {
	switch a {
	case ActionBuild:
		return &s.Build
	case ActionConvert:
		return &s.Convert
	case ActionUpload:
		return &s.Upload
	case ActionLaunch:
		return &s.Launch
	case ActionRegister:
		return &s.Register
	case ActionUpdate:
		return &s.Update
	case ActionServe:
		return &s.Serve
	case ActionDecline:
		return &s.Decline
	case ActionForget:
		return &s.Forget
	case ActionUnregister:
		return &s.Unregister
	case ActionDelete:
		return &s.Delete
	default:
		return nil
	}
}

// Count returns the number of steps with the action.
func (s Summary) Count(a Action) int {
	if n := s.of(a); n != nil {
		return *n
	}
	return 0
}

// Empty reports whether the plan has no steps.
func (s Summary) Empty() bool { return s.Total == 0 }

// Merge adds the counts of the steps of another summary.
func (s *Summary) Merge(other Summary) {
	for _, a := range summaryActions {
		*s.of(a) += *other.of(a)
	}
	s.Total += other.Total
}

var summaryActions = []Action{ActionBuild, ActionConvert, ActionUpload, ActionLaunch, ActionRegister, ActionServe, ActionDecline, ActionUpdate,
	ActionForget, ActionUnregister, ActionDelete}

// Actions returns all actions in the order of a summary: creating actions before deleting ones.
func Actions() []Action { return slices.Clone(summaryActions) }

// alwaysPrinted reports whether a summary contains the action even if its count is 0.
func alwaysPrinted(a Action) bool {
	return a == ActionBuild || a == ActionUpload || a == ActionLaunch || a == ActionDelete
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
	for _, a := range summaryActions {
		n := s.Count(a)
		if n == 0 && !alwaysPrinted(a) {
			continue
		}
		if !first {
			b.WriteString(", ")
		}
		first = false
		b.WriteString(strconv.Itoa(n) + " to " + string(a))
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
