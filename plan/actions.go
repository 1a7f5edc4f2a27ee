package plan

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/npctl/npctl/internal/text"
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
	{ActionValidate, "validated", "create", false, 4, func(s *Summary) *int { return &s.Validate }},
	{ActionLaunch, "launched", "create", true, 4, func(s *Summary) *int { return &s.Launch }},
	{ActionImport, "imported", "import", false, 1, func(s *Summary) *int { return &s.Import }},
	{ActionRegister, "registered", "create", false, 1, func(s *Summary) *int { return &s.Register }},
	{ActionServe, "", "update", false, 1, func(s *Summary) *int { return &s.Serve }},
	{ActionDecline, "", "update", false, 1, func(s *Summary) *int { return &s.Decline }},
	{ActionUpdate, "updated", "update", false, 1, func(s *Summary) *int { return &s.Update }},
	{ActionMove, "moved", "update", false, 0, func(s *Summary) *int { return &s.Move }},
	{ActionForget, "forgotten", "forget", false, 0, func(s *Summary) *int { return &s.Forget }},
	{ActionUnregister, "unregistered", "forget", false, lastPhase, func(s *Summary) *int { return &s.Unregister }},
	{ActionDelete, "deleted", "delete", true, lastPhase, func(s *Summary) *int { return &s.Delete }},
}

const lastPhase = 5

// ActionKinds lists all actions in the order of a summary: creating actions before deleting ones.
func ActionKinds() []ActionKind { return slices.Clone(actionKinds) }

// actionKindOf describes an action. For an action that this npctl does not know it returns an equivalent of a deletion that
// is not counted.
func actionKindOf(a Action) (kind ActionKind, known bool) {
	if i := slices.IndexFunc(actionKinds, func(k ActionKind) bool { return k.Action == a }); i >= 0 {
		return actionKinds[i], true
	}
	return ActionKind{Action: a, Effect: string(a), phase: lastPhase}, false
}

// Summary counts the steps of a plan by action. Both steps of a replacement count by their actions too; the printed counts have
// each replacement once.
type Summary struct {
	Build      int `json:"build"`
	Convert    int `json:"convert"`
	Upload     int `json:"upload"`
	Validate   int `json:"validate"`
	Launch     int `json:"launch"`
	Import     int `json:"import"`
	Register   int `json:"register"`
	Update     int `json:"update"`
	Serve      int `json:"serve"`
	Decline    int `json:"decline"`
	Move       int `json:"move"`
	Forget     int `json:"forget"`
	Unregister int `json:"unregister"`
	Delete     int `json:"delete"`
	Replace    int `json:"replace"`   // replacements
	Total      int `json:"total"`     // all steps
	Unchanged  int `json:"unchanged"` // objects that match the desired state
	Deferred   int `json:"deferred"`  // providers that could not be listed
	// InProgress reports whether another process was working on the state.
	InProgress bool `json:"in_progress"`
	Problems   bool `json:"-"` // a problem prevents the plan from being applied

	halves map[Action]int // steps that are halves of replacements
}

// The reasons. Each step has exactly one; its evidence has the details.
const (
	ReasonNoBuild         Reason = "no-build"
	ReasonInputsChanged   Reason = "inputs-changed"
	ReasonRebuildAge      Reason = "rebuild-age"
	ReasonRequested       Reason = "requested"
	ReasonNewVersion      Reason = "new-version"
	ReasonFileMissing     Reason = "file-missing"
	ReasonFormatMissing   Reason = "format-missing"
	ReasonNotUploaded     Reason = "not-uploaded"
	ReasonNotValidated    Reason = "not-validated"
	ReasonRejected        Reason = "rejected"
	ReasonBelowMinReady   Reason = "below-min-ready"
	ReasonConfigChanged   Reason = "config-changed"
	ReasonImageRemoved    Reason = "image-removed"
	ReasonLabelRemoved    Reason = "label-removed"
	ReasonPoolRemoved     Reason = "pool-removed"
	ReasonProviderRemoved Reason = "provider-removed"
	ReasonSuperseded      Reason = "superseded"
	ReasonUploaded        Reason = "uploaded"
	ReasonMaxReadyAge     Reason = "max-ready-age"
	ReasonAboveMaxServers Reason = "above-max-servers"
	ReasonSurplus         Reason = "surplus"
	ReasonUsed            Reason = "used"
	ReasonLost            Reason = "lost"
	ReasonFailed          Reason = "failed"
	ReasonNotReady        Reason = "not-ready"
	ReasonAddressChanged  Reason = "address-changed"
	ReasonUnfinished      Reason = "unfinished"
	ReasonAttemptFailed   Reason = "attempt-failed"
	ReasonUnanswered      Reason = "unanswered"
	ReasonLeaked          Reason = "leaked"
	ReasonDuplicate       Reason = "duplicate"
	ReasonNewStaticNode   Reason = "new-static-node"
	ReasonStaticNodeGone  Reason = "static-node-removed"
	ReasonSlotRemoved     Reason = "slot-removed"
	ReasonDestroy         Reason = "destroy"
	ReasonNothingLeft     Reason = "nothing-left"
	ReasonOrphaned        Reason = "orphaned"
	ReasonRequestWaiting  Reason = "request-waiting"
	ReasonNodesReady      Reason = "nodes-ready"
	ReasonDeclined        Reason = "declined"
	ReasonAllDeclined     Reason = "all-declined"
	ReasonDeadline        Reason = "deadline"
	ReasonNeverTaken      Reason = "never-taken"
	ReasonRequestGone     Reason = "request-gone"
	ReasonCapacityNeeded  Reason = "capacity-needed"
	ReasonLeaseExpired    Reason = "lease-expired"
	ReasonHoldExpired     Reason = "hold-expired"
	ReasonAbandoned       Reason = "abandoned"
	ReasonUnavailable     Reason = "unavailable"
	ReasonMoved           Reason = "moved"
	ReasonNamed           Reason = "named"
	ReasonNotOurs         Reason = "not-ours"
	ReasonRemoved         Reason = "removed"
	ReasonIdle            Reason = "idle"
)

var reasonTexts = map[Reason]string{
	ReasonNoBuild:         "there is no usable build",
	ReasonInputsChanged:   "the inputs of the image have changed",
	ReasonRebuildAge:      "the newest build is older than rebuild_age",
	ReasonRequested:       "it was requested",
	ReasonNewVersion:      "its source has a newer one",
	ReasonFileMissing:     "the file of the build is needed for an upload and is missing",
	ReasonFormatMissing:   "a provider needs another format",
	ReasonNotUploaded:     "the provider does not have the newest build",
	ReasonNotValidated:    "the build is not validated yet",
	ReasonRejected:        "the build is rejected",
	ReasonBelowMinReady:   "fewer nodes are ready than min_ready requires",
	ReasonConfigChanged:   "its configuration changed",
	ReasonImageRemoved:    "the image is no longer used here",
	ReasonLabelRemoved:    "the pool no longer offers the label",
	ReasonPoolRemoved:     "the pool is no longer configured",
	ReasonProviderRemoved: "the provider is no longer configured",
	ReasonSuperseded:      "newer builds are kept instead",
	ReasonUploaded:        "delete_after_upload, and every provider has it",
	ReasonMaxReadyAge:     "it has been ready for longer than max_ready_age",
	ReasonAboveMaxServers: "the pool has more nodes than max_servers allows",
	ReasonSurplus:         "min_ready does not need it, and it has been idle for idle_timeout",
	ReasonUsed:            "it has been used",
	ReasonLost:            "the cloud no longer has it",
	ReasonFailed:          "it has failed",
	ReasonNotReady:        "the cloud reports that it is not ready any more",
	ReasonAddressChanged:  "it has other addresses than those of its record",
	ReasonUnfinished:      "an earlier step did not finish it",
	ReasonAttemptFailed:   "an earlier attempt failed",
	ReasonUnanswered:      "the provider did not respond to an earlier attempt",
	ReasonLeaked:          "it has our ownership tags and no record",
	ReasonDuplicate:       "another one exists for the same record or slot",
	ReasonNewStaticNode:   "the node is new in the configuration",
	ReasonStaticNodeGone:  "the node is no longer configured",
	ReasonSlotRemoved:     "the node is configured with fewer slots",
	ReasonDestroy:         "the plan destroys everything",
	ReasonNothingLeft:     "none of its objects is left",
	ReasonOrphaned:        "its server is gone",
	ReasonRequestWaiting:  "a request waits for it",
	ReasonNodesReady:      "all its nodes are ready",
	ReasonDeclined:        "a pool cannot serve it",
	ReasonAllDeclined:     "no pool can serve it",
	ReasonDeadline:        "its deadline has passed",
	ReasonNeverTaken:      "its nodes were not taken in time",
	ReasonRequestGone:     "its request is gone",
	ReasonCapacityNeeded:  "a request needs its capacity",
	ReasonLeaseExpired:    "its lease expired without renewal",
	ReasonHoldExpired:     "its hold has expired",
	ReasonAbandoned:       "the process that accepted it is gone",
	ReasonMoved:           "a moved block renames it",
	ReasonUnavailable:     "the provider that accepted it does not respond",
	ReasonNamed:           "the configuration or a command names it",
	ReasonNotOurs:         "another owner has it now",
	ReasonIdle:            "the provider that uses it no longer needs it",
	ReasonRemoved:         "a removed block names it, and the object stays",
}

// Text returns the reason in words; an unknown code is its own text.
func (r Reason) Text() string {
	if text, ok := reasonTexts[r]; ok {
		return text
	}
	return string(r)
}

// Reasons returns all codes, sorted.
func Reasons() []Reason { return slices.Sorted(maps.Keys(reasonTexts)) }

// Summary counts the steps of the plan.
func (p Plan) Summary() Summary {
	s := Summary{Unchanged: p.Unchanged.Count(), Deferred: len(p.Deferred), InProgress: p.InProgress != nil, Problems: len(p.Problems) > 0}
	pairs := Replacements(p.Steps)
	for i := range p.Steps {
		if _, paired := pairs[i]; paired {
			s.AddHalf(p.Steps[i].Action)
		} else {
			s.Add(p.Steps[i].Action)
		}
	}
	return s
}

// Add counts one more step with the action.
func (s *Summary) Add(a Action) {
	s.Total++
	if kind, known := actionKindOf(a); known {
		*kind.count(s)++
	}
}

// AddHalf counts one half of a replacement. The creating half counts the replacement.
func (s *Summary) AddHalf(a Action) {
	s.Add(a)
	if s.halves == nil {
		s.halves = map[Action]int{}
	}
	s.halves[a]++
	if a != ActionDelete {
		s.Replace++
	}
}

// Count returns the number of steps with the action.
func (s Summary) Count(a Action) int {
	if kind, known := actionKindOf(a); known {
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
	s.Replace += other.Replace
	for a, n := range other.halves {
		if s.halves == nil {
			s.halves = map[Action]int{}
		}
		s.halves[a] += n
	}
}

// Printed is one count of a printed summary.
type Printed struct {
	Word  string // such as launch or replace
	Count int

	always bool
}

// Printed returns the counts for people, in their order: replacements, and for each action the steps that are no halves of
// replacements.
func (s Summary) Printed() []Printed {
	var all []Printed
	for _, kind := range actionKinds {
		all = append(all, Printed{string(kind.Action), *kind.count(&s) - s.halves[kind.Action], kind.Always})
		if kind.Action == ActionLaunch {
			all = append(all, Printed{"replace", s.Replace, false})
		}
	}
	return all
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
	if why != "" {
		why = "; " + why
	}
	return "Plan: " + s.counts(true) + why + "."
}

// counts returns text such as "1 to build, 2 to launch", with the actions that always appear even if their count is 0.
func (s Summary) counts(always bool) string {
	var counts []string
	for _, c := range s.Printed() {
		if c.Count > 0 || always && c.always {
			counts = append(counts, strconv.Itoa(c.Count)+" to "+c.Word)
		}
	}
	return strings.Join(counts, ", ")
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
