package plan

import (
	"strconv"
	"strings"
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
		s.add(p.Steps[i].Action)
	}
	return s
}

func (s *Summary) add(a Action) {
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

// summaryActions lists the actions in the order of a summary: creating actions before deleting ones.
var summaryActions = []struct {
	action Action
	always bool // printed even if the count is 0
}{
	{ActionBuild, true},
	{ActionConvert, false},
	{ActionUpload, true},
	{ActionLaunch, true},
	{ActionRegister, false},
	{ActionServe, false},
	{ActionDecline, false},
	{ActionUpdate, false},
	{ActionForget, false},
	{ActionUnregister, false},
	{ActionDelete, true},
}

// String returns the last line of every printed plan: "No changes.", or a line such as "Plan: 1 to build, 1 to
// upload, 2 to launch, 0 to delete." These four actions always appear, the others only if their count is not 0. A
// plan with problems never prints "No changes.", and an incomplete plan prints the reason instead: "No known changes;
// 1 provider could not be listed.".
func (s Summary) String() string {
	why := s.unknown()
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
		n := s.Count(a.action)
		if n == 0 && !a.always {
			continue
		}
		if !first {
			b.WriteString(", ")
		}
		first = false
		b.WriteString(strconv.Itoa(n) + " to " + string(a.action))
	}
	if why != "" {
		b.WriteString("; " + why)
	}
	b.WriteByte('.')
	return b.String()
}
