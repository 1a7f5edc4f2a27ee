package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// errChanged is why a step was not done: somebody changed the record between the plan and the step.
var errChanged = errors.New("it has changed since it was planned")

// serve gives nodes to a request. It is fulfilled when none is missing; otherwise the pool has taken it.
func (x *execution) serve(ctx context.Context, s plan.Step) error {
	if stale := x.unverified(s); len(stale) > 0 {
		if err := x.verify(ctx, stale); err != nil {
			return err
		}
	}
	now, err := x.give(ctx, s)
	if now != resources.StatePending {
		x.ledger.claims.letGo(ctx, s.Record)
	}
	return err
}

// give writes which nodes are the request's, and returns the state that it is in then.
func (x *execution) give(ctx context.Context, s plan.Step) (resources.State, error) {
	r, at := find[resources.Request](x.ledger, s.Record)
	if r == nil {
		return "", fmt.Errorf("%s: %w", s.Record, errChanged)
	}
	before, held := r.State, x.ledger.claims.has(s.Record)
	ops := []state.Op{{Record: r, Revision: at}}
	ready := 0
	for _, id := range s.Nodes {
		if id == "" {
			continue
		}
		n, at := find[resources.Node](x.ledger, resources.Key{Kind: resources.KindNode, ID: id})
		if n == nil || n.Request != "" && n.Request != r.ID {
			return before, fmt.Errorf("node %s: %w", id, errChanged)
		}
		if n.State == resources.StateReady && !x.ledger.claims.has(n.Key()) { // whoever gets it has to be able to claim it
			ready++
		}
		if n.Request == "" {
			if n.State != resources.StateReady {
				return before, fmt.Errorf("node %s: %w", id, errChanged)
			}
			n.Request, n.Tenant, n.Requestor = r.ID, r.Tenant, r.Who
			ops = append(ops, state.Op{Record: n, Revision: at})
		}
	}
	now := x.Now()
	r.Place = resources.Place{Provider: s.Provider, Pool: s.Pool, Zone: s.Zone}
	if r.Taken.IsZero() {
		r.Taken = now
	}
	if ready == len(r.Labels) {
		r.State, r.StateTime, r.Nodes, r.Ready = resources.StateFulfilled, now, s.Nodes, now
	} else if r.State != resources.StatePending {
		r.State, r.StateTime = resources.StatePending, now
	}
	switch {
	case r.State == resources.StateFulfilled:
		ops[0].Release = held
	case !held && slices.Contains(s.Nodes, "") && x.ledger.claims.store != nil: // it waits for its nodes, and is claimed until it is answered
		if before != resources.StateRequested {
			return before, fmt.Errorf("request %s is %s: %w", r.ID, before, errChanged)
		}
		ops[0].Claim = true
	}
	if err := x.ledger.replace(ctx, ops...); err != nil {
		return before, err
	}
	return r.State, nil
}

// decline notes the pools that will not serve a request. One that no pool is left for, or that has no more use, fails.
func (x *execution) decline(ctx context.Context, s plan.Step) error {
	defer x.ledger.claims.letGo(ctx, s.Record)
	r, at := find[resources.Request](x.ledger, s.Record)
	if r == nil {
		return nil // it was cancelled
	}
	r.Declined = s.Declined
	if s.Reason == plan.ReasonDeclined {
		if r.State != resources.StateRequested {
			r.State, r.StateTime = resources.StateRequested, x.Now()
		}
		r.Place = resources.Place{}
		return x.ledger.replace(ctx, state.Op{Record: r, Revision: at, Release: x.ledger.claims.has(s.Record)})
	}
	r.State, r.StateTime, r.Error = resources.StateFailed, x.Now(), s.Cause()
	return x.ledger.replace(ctx, state.Op{Record: r, Revision: at, Release: x.ledger.claims.has(s.Record)})
}

// updateNode takes a node back from a request that is gone, or from a user whose time is over.
func (x *execution) updateNode(ctx context.Context, s plan.Step) error {
	n, at := find[resources.Node](x.ledger, s.Record)
	if n == nil {
		return nil
	}
	now := x.Now()
	switch s.Reason {
	case plan.ReasonRequestGone:
		if n.State != resources.StateReady {
			return fmt.Errorf("%s: %w", s.Record, errChanged)
		}
		n.Request, n.Tenant, n.Requestor = "", "", ""
	case plan.ReasonLeaseExpired, plan.ReasonHoldExpired:
		if n.State != resources.StateInUse && n.State != resources.StateHold {
			return fmt.Errorf("%s: %w", s.Record, errChanged)
		}
		n.State, n.StateTime, n.Lease = resources.StateUsed, now, nil
		n.Comment = s.Reason.Text()
	default:
		return fmt.Errorf("this npctl cannot update a node because %s", s.Reason.Text())
	}
	return x.ledger.replace(ctx, state.Op{Record: n, Revision: at})
}

// restartRequest lets a request begin anew that nobody works on any more, or that others can serve sooner, and frees what was
// taken for it.
func (x *execution) restartRequest(ctx context.Context, s plan.Step) error {
	defer x.ledger.claims.letGo(ctx, s.Record)
	r, at := find[resources.Request](x.ledger, s.Record)
	if r == nil || r.State != resources.StatePending {
		return fmt.Errorf("%s: %w", s.Record, errChanged)
	}
	now := x.Now()
	r.State, r.StateTime, r.Place, r.Taken, r.Nodes = resources.StateRequested, now, resources.Place{}, time.Time{}, nil
	ops := []state.Op{{Record: r, Revision: at, Release: x.ledger.claims.has(s.Record)}}
	for _, id := range s.Nodes {
		n, at := find[resources.Node](x.ledger, resources.Key{Kind: resources.KindNode, ID: id})
		if n == nil || n.Request != r.ID {
			continue
		}
		n.Request, n.Tenant, n.Requestor = "", "", ""
		if n.State != resources.StateReady {
			n.State, n.StateTime = resources.StateDeleting, now
		}
		ops = append(ops, state.Op{Record: n, Revision: at})
	}
	return x.ledger.replace(ctx, ops...)
}
