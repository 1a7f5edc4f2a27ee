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
	Total      int `json:"total"`     // steps, whatever they do
	Unchanged  int `json:"unchanged"` // things that are as wanted
	Deferred   int `json:"deferred"`  // providers that could not be listed
	// InProgress reports whether another process was working on the state.
	InProgress bool `json:"in_progress"`
	Problems   bool `json:"-"` // something keeps the plan from being applied
}

// Summary counts what the plan would do.
func (p Plan) Summary() Summary {
	s := Summary{Unchanged: len(p.Unchanged), Deferred: len(p.Deferred), InProgress: p.InProgress != nil, Problems: len(p.Problems) > 0}
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

// of returns the counter of an action, or nil for one that this npctl does not know.
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

// Count returns how many steps do that.
func (s Summary) Count(a Action) int {
	if n := s.of(a); n != nil {
		return *n
	}
	return 0
}

// Empty reports whether nothing would be done.
func (s Summary) Empty() bool { return s.Total == 0 }

// summaryActions lists the actions in the order in which a summary tells them: what makes comes before what removes.
var summaryActions = []struct {
	action Action
	always bool // told even when there are none
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

// String is the last line of everything people read about a plan: "No changes.", or a line such as
// "Plan: 1 to build, 1 to upload, 2 to launch, 0 to delete." in which those four words always appear, and convert,
// register, update, forget and unregister where there are any. A plan with problems never says "No changes.", and a plan that does
// not cover everything says why instead: "No known changes; 1 provider could not be listed.".
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
