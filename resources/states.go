package resources

import "slices"

// State is where a build, upload, node or request is in its life. The words are Nodepool's, so that a shared store needs no
// translation.
type State string

// The states of builds, uploads, nodes and requests.
const (
	StateInit      State = "init"      // node: recorded, nothing done yet
	StateBuilding  State = "building"  // node being launched, image being built
	StateUploading State = "uploading" // upload in progress
	StateReady     State = "ready"
	StateInUse     State = "in-use"
	StateUsed      State = "used"
	StateHold      State = "hold"
	StateFailed    State = "failed"
	StateAborted   State = "aborted" // stopped for lack of quota; not a failure of the node
	StateDeleting  State = "deleting"
	StateRequested State = "requested" // request: nobody is working on it
	StatePending   State = "pending"   // request: a pool has taken it
	StateFulfilled State = "fulfilled" // request: all its nodes are ready
)

var nodeMoves = map[State][]State{
	"":            {StateInit, StateBuilding, StateReady, StateFailed}, // failed: a static node that does not answer
	StateInit:     {StateBuilding, StateFailed, StateAborted, StateDeleting},
	StateBuilding: {StateReady, StateFailed, StateAborted, StateDeleting},
	StateReady:    {StateInUse, StateHold, StateUsed, StateDeleting, StateFailed},
	StateInUse:    {StateUsed, StateHold, StateDeleting, StateReady},
	StateUsed:     {StateDeleting, StateReady, StateFailed},
	StateHold:     {StateUsed, StateReady, StateDeleting},
	StateFailed:   {StateDeleting, StateBuilding, StateReady}, // ready: a static node that answers again
	StateAborted:  {StateDeleting, StateBuilding},
	StateDeleting: {StateDeleting},
}

var buildMoves = map[State][]State{
	"":            {StateBuilding},
	StateBuilding: {StateReady, StateFailed, StateDeleting},
	StateReady:    {StateDeleting},
	StateFailed:   {StateDeleting},
	StateDeleting: {StateDeleting},
}

var uploadMoves = map[State][]State{
	"":             {StateUploading},
	StateUploading: {StateReady, StateFailed, StateDeleting},
	StateReady:     {StateDeleting},
	StateFailed:    {StateDeleting},
	StateDeleting:  {StateDeleting},
}

var requestMoves = map[State][]State{
	"":             {StateRequested},
	StateRequested: {StatePending, StateFulfilled, StateFailed},
	StatePending:   {StateRequested, StateFulfilled, StateFailed},
	StateFulfilled: {StateFailed}, // its requestor never came for the nodes
}

// StatesOf lists the states that a record of that kind can be in.
func StatesOf(kind Kind) []State {
	moves := map[Kind]map[State][]State{KindNode: nodeMoves, KindBuild: buildMoves, KindUpload: uploadMoves, KindRequest: requestMoves}[kind]
	var states []State
	for from, to := range moves {
		if from != "" {
			states = append(states, from)
		}
		states = append(states, to...)
	}
	slices.Sort(states)
	return slices.Compact(states)
}

// LegalMove reports whether a record of that kind may go from one state to another. Going from a state to itself is
// always legal (a record may be written without changing state), and every record may be removed.
func LegalMove(kind Kind, from, to State) bool {
	if from == to && from != "" {
		return true
	}
	switch kind {
	case KindNode:
		return slices.Contains(nodeMoves[from], to)
	case KindBuild:
		return slices.Contains(buildMoves[from], to)
	case KindUpload:
		return slices.Contains(uploadMoves[from], to)
	case KindRequest:
		return slices.Contains(requestMoves[from], to)
	default:
		return true
	}
}
