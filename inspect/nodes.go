package inspect

import (
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// NodeViews returns a function that describes nodes with the steps that run on them.
func (w *Fleet) NodeViews(running []plan.Step) func(*resources.Node) wire.Node {
	steps := map[resources.Key]*plan.Step{}
	for i := range running {
		steps[running[i].Record] = &running[i]
	}
	return func(n *resources.Node) wire.Node {
		shown, step := wire.Node{Node: *n}, steps[n.Key()]
		switch {
		case step != nil:
			shown.Step = string(step.Action) + " (" + step.Reason.Text() + ")"
		case !w.Observed.Busy[n.Key()]:
		case n.State == resources.StateInit || n.State == resources.StateBuilding:
			shown.Step = string(plan.ActionLaunch)
		default:
			shown.Step = string(plan.ActionUpdate)
		}
		return shown
	}
}

// RequestViews returns a function that describes requests with the nodes that are assigned to them.
func (w *Fleet) RequestViews() func(*resources.Request) wire.Request {
	assigned := map[string][]string{}
	for _, n := range w.Observed.Records.Nodes {
		if n.Request != "" && IsAssigned(n) {
			assigned[n.Request] = append(assigned[n.Request], n.ID)
		}
	}
	return func(r *resources.Request) wire.Request { return wire.Request{Request: *r, Assigned: assigned[r.ID]} }
}

// IsAssigned reports whether a node with a request waits for that request.
func IsAssigned(n *resources.Node) bool {
	return n.State == resources.StateReady || n.State == resources.StateInit || n.State == resources.StateBuilding
}

// IsFree reports whether a node is ready and not assigned.
func IsFree(n *resources.Node) bool { return n.State == resources.StateReady && n.Request == "" }

// Status counts the requests and nodes and summarizes a plan. The caller adds what only a process knows.
func (w *Fleet) Status(p plan.Plan) wire.Status {
	s := wire.Status{Installation: w.Observed.Installation, Requests: map[resources.State]int{}, Nodes: map[resources.State]int{},
		Plan: p.Summary().String(), Problems: []string{}}
	for _, r := range w.Observed.Records.Requests {
		s.Requests[r.State]++
		if r.IsOpen() && (s.OldestRequest.IsZero() || r.Created.Before(s.OldestRequest)) {
			s.OldestRequest = r.Created
		}
	}
	for _, n := range w.Observed.Records.Nodes {
		s.Nodes[n.State]++
		if IsFree(n) {
			s.Free++
		}
	}
	for _, problem := range p.Problems {
		s.Problems = append(s.Problems, string(problem.Address)+": "+problem.Text)
	}
	return s
}
