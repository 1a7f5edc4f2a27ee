package resources

import "slices"

// State is the state of a build, upload, node or request. The values are those of Nodepool, so that a shared store
// needs no translation.
type State string

// The states of builds, uploads, nodes and requests.
const (
	StateInit      State = "init"      // node: recorded, not started
	StateBuilding  State = "building"  // node being launched, image being built
	StateUploading State = "uploading" // upload in progress
	StateReady     State = "ready"
	StateInUse     State = "in-use"
	StateUsed      State = "used"
	StateHold      State = "hold"
	StateFailed    State = "failed"
	StateAborted   State = "aborted" // stopped because of a lack of quota; not a failure of the node
	StateDeleting  State = "deleting"
	StateRequested State = "requested" // request: not accepted
	StatePending   State = "pending"   // request: accepted by a pool
	StateFulfilled State = "fulfilled" // request: all its nodes are ready
)

// IsInService reports whether a job or a person uses a node: it is in use or on hold.
func (s State) IsInService() bool { return s == StateInUse || s == StateHold }

// transitions are the changes of state of the kinds of records that have states.
var transitions = map[Kind]map[State][]State{
	KindNode: {
		"":            {StateInit, StateBuilding, StateReady, StateFailed}, // failed: a static node that does not respond
		StateInit:     {StateBuilding, StateFailed, StateAborted, StateDeleting},
		StateBuilding: {StateReady, StateHold, StateFailed, StateAborted, StateDeleting}, // hold: an imported server
		StateReady:    {StateInUse, StateHold, StateUsed, StateDeleting, StateFailed},
		StateInUse:    {StateUsed, StateHold, StateDeleting, StateReady},
		StateUsed:     {StateDeleting, StateReady, StateFailed},
		StateHold:     {StateUsed, StateReady, StateDeleting},
		StateFailed:   {StateDeleting, StateBuilding, StateReady}, // ready: a static node that responds again
		StateAborted:  {StateDeleting, StateBuilding},
		StateDeleting: {StateDeleting},
	},
	KindBuild: {
		"":            {StateBuilding, StateReady}, // ready: an imported image
		StateBuilding: {StateReady, StateFailed, StateDeleting},
		StateReady:    {StateDeleting},
		StateFailed:   {StateDeleting},
		StateDeleting: {StateDeleting},
	},
	KindUpload: {
		"":             {StateUploading},
		StateUploading: {StateReady, StateFailed, StateDeleting},
		StateReady:     {StateDeleting},
		StateFailed:    {StateDeleting},
		StateDeleting:  {StateDeleting},
	},
	KindRequest: {
		"":             {StateRequested},
		StateRequested: {StatePending, StateFulfilled, StateFailed},
		StatePending:   {StateRequested, StateFulfilled, StateFailed},
		StateFulfilled: {StateFailed}, // the requestor did not take the nodes in time
	},
}

// StatesOf returns the states of records of the kind.
func StatesOf(kind Kind) []State {
	var states []State
	for from, to := range transitions[kind] {
		if from != "" {
			states = append(states, from)
		}
		states = append(states, to...)
	}
	slices.Sort(states)
	return slices.Compact(states)
}

// LegalTransition reports whether a record of the kind may change from one state to another. A record may always be
// written without a change of state, and every record may be removed.
func LegalTransition(kind Kind, from, to State) bool {
	moves, limited := transitions[kind]
	return !limited || from == to && from != "" || slices.Contains(moves[from], to)
}
