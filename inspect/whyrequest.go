package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// request explains the state of a request.
func (e *explanation) request(id string) error {
	i := slices.IndexFunc(e.Observed.Records.Requests, func(r *resources.Request) bool { return r.ID == id })
	if i < 0 {
		return &NotFoundError{Kind: "request", Name: id, Hint: "npctl request list shows all requests"}
	}
	r := e.Observed.Records.Requests[i]
	e.State = string(r.State)
	e.steps(func(s *plan.Step) bool { return s.Request == id })
	e.fact("labels", strings.Join(r.Labels, ", "))
	e.fact("created", e.since(r.Created)+" ago by "+cmp.Or(r.Requestor, "an unnamed client"))
	e.fact("tenant", r.Tenant)
	e.fact("event id", r.EventID)
	e.fact("requested provider", r.Provider)
	if !r.Deadline.IsZero() {
		e.fact("deadline", "in "+rounded(r.Deadline.Sub(e.in.Now)))
	}
	for _, d := range r.Declined {
		e.fact("declined by "+d.Provider+"/"+d.Pool, d.Reason)
	}
	for _, label := range slices.Compact(slices.Sorted(slices.Values(r.Labels))) {
		e.relate("label/" + label)
	}
	switch r.State {
	case resources.StateFulfilled:
		e.Summary = fmt.Sprintf("Its nodes have been ready for %s and wait to be taken: npctl request take %s.", e.since(r.StateTime), id)
		e.wait("requestor", "its requestor must take its nodes: npctl request take %s", id)
		e.nodesOf(r)
	case resources.StateFailed:
		e.Summary = "It failed: " + strings.TrimSuffix(r.Error, ".") + "."
	case resources.StatePending:
		e.pending(r)
	default:
		e.requested(r)
	}
	if e.in.Shadow != "" {
		e.Summary = "Other processes serve it; npctl would " + e.in.Shadow + "."
	}
	return nil
}

// requested explains a request that no pool has accepted.
func (e *explanation) requested(r *resources.Request) {
	before := e.before(r)
	e.fact("more urgent requests", fmt.Sprint(before))
	reasons := e.notes("waiting", func(at plan.Address) bool { return at == plan.Address("request."+r.ID) })
	troubled := false
	for _, label := range slices.Compact(slices.Sorted(slices.Values(r.Labels))) {
		for _, o := range e.offers(label) {
			e.relate("provider/" + o.Provider)
			troubled = e.providerProblems(o.Provider) || troubled
			for _, p := range o.Problems {
				e.wait("problem", "%s/%s: %s", o.Provider, o.Pool, p)
			}
			if o.LaunchFailure != nil {
				e.wait("launch-failed", "launches in %s/%s failed %s, last %s ago: %s", o.Provider, o.Pool, text.Count(o.LaunchFailure.Count, "time", "times"), e.since(o.LaunchFailure.Time), o.LaunchFailure.Error)
			}
		}
	}
	switch {
	case len(reasons) > 0:
		e.Summary = "No pool can serve it now: " + strings.Join(reasons, "; ") + "."
	case len(e.Planned)+len(e.Running) > 0:
		e.Summary = "A pool is accepting it now."
	case troubled:
		e.Summary = "The providers that could serve it cannot be used now."
	default:
		e.Summary = "It waits for the next pass; " + text.Count(before, "request is", "requests are") + " more urgent."
	}
}

// before counts the requests that are more urgent than r.
func (e *explanation) before(r *resources.Request) (n int) {
	for _, other := range e.Observed.Records.Requests {
		if other.State == resources.StateRequested && cmp.Or(cmp.Compare(other.Priority, r.Priority), cmp.Compare(other.RelativePriority, r.RelativePriority),
			other.Created.Compare(r.Created), cmp.Compare(other.ID, r.ID)) < 0 {
			n++
		}
	}
	return n
}

// pending explains an accepted request.
func (e *explanation) pending(r *resources.Request) {
	where := r.Placement.Provider + "/" + r.Placement.Pool
	if r.Placement.Zone != "" {
		where += " in zone " + r.Placement.Zone
	}
	e.fact("accepted by", where+", "+e.since(r.PendingSince)+" ago")
	e.relate("provider/" + r.Placement.Provider)
	ready, total := e.nodesOf(r)
	e.notes("waiting", func(at plan.Address) bool { return at == plan.Address("request."+r.ID) })
	e.providerProblems(r.Placement.Provider)
	e.Summary = fmt.Sprintf("%s provides its nodes: %d of %d are ready.", where, ready, len(r.Labels))
	if total < len(r.Labels) && len(e.Waits) > 0 {
		e.Summary = fmt.Sprintf("%s has accepted it; %d of %s ready, and the rest waits: %s.", where, ready, text.Count(len(r.Labels), "node is", "nodes are"), e.Waits[0].Text)
	}
}

// nodesOf adds the nodes of a request. It returns the number of ready nodes and of all nodes.
func (e *explanation) nodesOf(r *resources.Request) (ready, total int) {
	for _, n := range e.Observed.Records.Nodes {
		if n.Request != r.ID || !IsAssigned(n) {
			continue
		}
		total++
		e.fact("node/"+n.ID, fmt.Sprintf("%s for %s", n.State, e.since(n.StateTime)))
		e.relate("node/" + n.ID)
		if n.State == resources.StateReady {
			ready++
			continue
		}
		text := fmt.Sprintf("node %s has been %s for %s", n.ID, n.State, e.since(n.StateTime))
		if usual := e.usual("launch/" + n.Provider + "/" + strings.Join(n.Labels, ",")); usual != "" {
			text += "; that usually takes " + usual
		}
		e.wait("launch", "%s", text)
	}
	return ready, total
}

// usual returns the median duration in the history of a subject, or "" if it has none.
func (e *explanation) usual(subject string) string {
	for _, h := range e.Observed.Records.Histories {
		if h.Subject == subject && len(h.Seconds) > 0 {
			sorted := slices.Sorted(slices.Values(h.Seconds))
			return rounded(seconds(sorted[len(sorted)/2]))
		}
	}
	return ""
}
