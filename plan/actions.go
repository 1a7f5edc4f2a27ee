package plan

import "slices"

// Action is what a step does.
type Action string

// The actions; actionKinds describes them.
const (
	ActionBuild      Action = "build"      // build an image
	ActionConvert    Action = "convert"    // create a further format of a build
	ActionUpload     Action = "upload"     // upload a build to a provider
	ActionLaunch     Action = "launch"     // create a node
	ActionRegister   Action = "register"   // register a static node's slot
	ActionUpdate     Action = "update"     // change a record
	ActionServe      Action = "serve"      // assign nodes to a request
	ActionDecline    Action = "decline"    // record that pools will not serve a request
	ActionForget     Action = "forget"     // remove a record without an object
	ActionUnregister Action = "unregister" // remove the record of a static node's slot; the machine stays
	ActionDelete     Action = "delete"     // delete an object and its record
)

// ActionKind describes an action for summaries, results and programs.
type ActionKind struct {
	Action Action
	Past   string // the word of the result line of apply, such as "built"; "" if the line omits the action
	Effect string // the nearest action of Terraform
	Always bool   // counted in summaries and results even if there is no such step

	phase int // position among independent steps: records first, then creations, then deletions
	count func(*Summary) *int
}

var actionKinds = []ActionKind{
	{ActionBuild, "built", "create", true, 2, func(s *Summary) *int { return &s.Build }},
	{ActionConvert, "converted", "create", false, 2, func(s *Summary) *int { return &s.Convert }},
	{ActionUpload, "uploaded", "create", true, 3, func(s *Summary) *int { return &s.Upload }},
	{ActionLaunch, "launched", "create", true, 4, func(s *Summary) *int { return &s.Launch }},
	{ActionRegister, "registered", "create", false, 1, func(s *Summary) *int { return &s.Register }},
	{ActionServe, "", "update", false, 1, func(s *Summary) *int { return &s.Serve }},
	{ActionDecline, "", "update", false, 1, func(s *Summary) *int { return &s.Decline }},
	{ActionUpdate, "updated", "update", false, 1, func(s *Summary) *int { return &s.Update }},
	{ActionForget, "forgotten", "forget", false, 0, func(s *Summary) *int { return &s.Forget }},
	{ActionUnregister, "unregistered", "forget", false, lastPhase, func(s *Summary) *int { return &s.Unregister }},
	{ActionDelete, "deleted", "delete", true, lastPhase, func(s *Summary) *int { return &s.Delete }},
}

const lastPhase = 5

// ActionKinds lists all actions in the order of a summary: creating actions before deleting ones.
func ActionKinds() []ActionKind { return slices.Clone(actionKinds) }

// kindOf describes an action. For an action that this npctl does not know it returns an equivalent of a deletion that
// is not counted.
func kindOf(a Action) (kind ActionKind, known bool) {
	if i := slices.IndexFunc(actionKinds, func(k ActionKind) bool { return k.Action == a }); i >= 0 {
		return actionKinds[i], true
	}
	return ActionKind{Action: a, Effect: string(a), phase: lastPhase}, false
}

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
