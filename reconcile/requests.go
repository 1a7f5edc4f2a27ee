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

// errChanged is the error of a step if its record was changed after the step was planned.
var errChanged = errors.New("it has changed since it was planned")

// requestRecords changes requests and the assignment of their nodes.
type requestRecords struct {
	cache *recordCache
	now   func() time.Time
}

// serve assigns nodes to a request. The request is fulfilled if none is missing; otherwise it is pending in the pool.
func (x *execution) serve(ctx context.Context, s plan.Step) error {
	if stale := x.unverified(s); len(stale) > 0 {
		if err := x.verify(ctx, stale); err != nil {
			return err
		}
	}
	now, err := (requestRecords{x.cache, x.Now}).give(ctx, s)
	if now != resources.StatePending {
		x.cache.claims.release(ctx, s.Record)
	}
	return err
}

// give writes the nodes of the request and returns its new state.
func (w requestRecords) give(ctx context.Context, s plan.Step) (resources.State, error) {
	r, at := find[resources.Request](w.cache, s.Record)
	if r == nil {
		return "", fmt.Errorf("%s: %w", s.Record, errChanged)
	}
	before, held := r.State, w.cache.claims.has(s.Record)
	ops := []state.Op{{Record: r, Revision: at}}
	ready := 0
	for _, id := range s.Nodes {
		if id == "" {
			continue
		}
		n, at := find[resources.Node](w.cache, resources.Key{Kind: resources.KindNode, ID: id})
		if n == nil || n.Request != "" && n.Request != r.ID {
			return before, fmt.Errorf("node %s: %w", id, errChanged)
		}
		if n.State == resources.StateReady && !w.cache.claims.has(n.Key()) { // its user must be able to claim it
			ready++
		}
		if n.Request == "" {
			if n.State != resources.StateReady {
				return before, fmt.Errorf("node %s: %w", id, errChanged)
			}
			n.Request, n.Tenant, n.Requestor = r.ID, r.Tenant, r.Requestor
			ops = append(ops, state.Op{Record: n, Revision: at})
		}
	}
	now := w.now()
	r.Placement = resources.Placement{Provider: s.Provider, Pool: s.Pool, Zone: s.Zone}
	if r.PendingSince.IsZero() {
		r.PendingSince = now
	}
	if ready == len(r.Labels) {
		r.State, r.StateTime, r.Nodes, r.Ready = resources.StateFulfilled, now, s.Nodes, now
	} else if r.State != resources.StatePending {
		r.State, r.StateTime = resources.StatePending, now
	}
	switch {
	case r.State == resources.StateFulfilled:
		ops[0].Release = held
	case !held && slices.Contains(s.Nodes, "") && w.cache.claims.store != nil: // the request stays claimed until it is fulfilled or declined
		if before != resources.StateRequested {
			return before, fmt.Errorf("request %s is %s: %w", r.ID, before, errChanged)
		}
		ops[0].Claim = true
	}
	if err := w.cache.replace(ctx, ops...); err != nil {
		return before, err
	}
	return r.State, nil
}

// decline records the pools that decline a request. A request that no pool is left for or that has no more use fails.
func (w requestRecords) decline(ctx context.Context, s plan.Step) error {
	defer w.cache.claims.release(ctx, s.Record)
	r, at := find[resources.Request](w.cache, s.Record)
	if r == nil {
		return nil // it was canceled
	}
	r.Declined = s.Declined
	if s.Reason == plan.ReasonDeclined {
		if r.State != resources.StateRequested {
			r.State, r.StateTime = resources.StateRequested, w.now()
		}
		r.Placement = resources.Placement{}
		return w.cache.replace(ctx, state.Op{Record: r, Revision: at, Release: w.cache.claims.has(s.Record)})
	}
	r.State, r.StateTime, r.Error = resources.StateFailed, w.now(), s.Cause()
	return w.cache.replace(ctx, state.Op{Record: r, Revision: at, Release: w.cache.claims.has(s.Record)})
}

// updateNode takes a node from a request that no longer exists, or from its user after the lease or hold has expired.
func (w requestRecords) updateNode(ctx context.Context, s plan.Step) error {
	n, at := find[resources.Node](w.cache, s.Record)
	if n == nil {
		return nil
	}
	now := w.now()
	switch s.Reason {
	case plan.ReasonRequestGone:
		if n.State != resources.StateReady {
			return fmt.Errorf("%s: %w", s.Record, errChanged)
		}
		n.Request, n.Tenant, n.Requestor = "", "", ""
	case plan.ReasonLeaseExpired, plan.ReasonHoldExpired:
		if !n.State.IsInService() {
			return fmt.Errorf("%s: %w", s.Record, errChanged)
		}
		n.State, n.StateTime, n.Lease = resources.StateUsed, now, nil
		n.Comment = s.Reason.Text()
	default:
		return fmt.Errorf("this npctl cannot update a node because %s", s.Reason.Text())
	}
	return w.cache.replace(ctx, state.Op{Record: n, Revision: at})
}

// restartRequest returns a pending request to its initial state and releases its nodes. It is planned for requests that
// no process works on or that another pool can serve sooner.
func (w requestRecords) restartRequest(ctx context.Context, s plan.Step) error {
	defer w.cache.claims.release(ctx, s.Record)
	r, at := find[resources.Request](w.cache, s.Record)
	if r == nil || r.State != resources.StatePending {
		return fmt.Errorf("%s: %w", s.Record, errChanged)
	}
	now := w.now()
	r.State, r.StateTime, r.Placement, r.PendingSince, r.Nodes = resources.StateRequested, now, resources.Placement{}, time.Time{}, nil
	ops := []state.Op{{Record: r, Revision: at, Release: w.cache.claims.has(s.Record)}}
	for _, id := range s.Nodes {
		n, at := find[resources.Node](w.cache, resources.Key{Kind: resources.KindNode, ID: id})
		if n == nil || n.Request != r.ID {
			continue
		}
		n.Request, n.Tenant, n.Requestor = "", "", ""
		if n.State != resources.StateReady {
			n.State, n.StateTime = resources.StateDeleting, now
		}
		ops = append(ops, state.Op{Record: n, Revision: at})
	}
	return w.cache.replace(ctx, ops...)
}
