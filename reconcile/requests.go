package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
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
	if r == nil || r.State == resources.StateFulfilled { // canceled, or fulfilled with its last launch
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
		fulfill(r, s.Nodes, now)
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

func fulfill(r *resources.Request, nodes []string, now time.Time) {
	r.State, r.StateTime, r.Nodes, r.Ready = resources.StateFulfilled, now, nodes, now
}

// fulfillment returns the operation that fulfills the request of a node when the node becomes ready, and the step that the next plan
// would have for it. It returns false if the request lacks other nodes, or another step works on it.
func (w requestRecords) fulfillment(ready *resources.Node) (state.Op, plan.Step, bool) {
	r, at := find[resources.Request](w.cache, resources.Key{Kind: resources.KindRequest, ID: ready.Request})
	if ready.Request == "" || r == nil || r.State != resources.StatePending || !plan.Owns(r, ready) || w.cache.isBusy(r.Key()) {
		return state.Op{}, plan.Step{}, false
	}
	nodes := []*resources.Node{ready}
	if len(r.Labels) > 1 {
		nodes = w.cache.nodesOf(r, ready)
	}
	ids := make([]string, len(r.Labels))
	for i, n := range plan.MatchLabels(r.Labels, nodes) {
		if n == nil || n != ready && (n.State != resources.StateReady || w.cache.claims.has(n.Key())) {
			return state.Op{}, plan.Step{}, false
		}
		ids[i] = n.ID
	}
	fulfill(r, ids, w.now())
	return state.Op{Record: r, Revision: at, Release: w.cache.claims.has(r.Key())}, plan.FulfillStep(r, ids), true
}

// decline records the pools that decline a request. A request that no pool is left for or that has no more use fails.
func (w requestRecords) decline(ctx context.Context, s plan.Step) error {
	defer w.cache.claims.release(ctx, s.Record)
	r, at := find[resources.Request](w.cache, s.Record)
	if r == nil {
		return nil // it was canceled
	}
	if r.State == resources.StateFulfilled && s.Reason != plan.ReasonNeverTaken && s.Reason != plan.ReasonDestroy {
		return fmt.Errorf("%s: %w", s.Record, errChanged) // it was fulfilled with its last launch
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

// updateNode takes a node from a request that no longer exists, or from its user after the lease or hold has expired, or retires a
// node that a provider uses.
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
	case plan.ReasonNotReady:
		if !n.State.IsInService() {
			return fmt.Errorf("%s: %w", s.Record, errChanged)
		}
		n.Retired = true
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

const (
	// verifyAfter is how long a successful check of a node is valid.
	verifyAfter = 30 * time.Second
	// verifyTimeout bounds the checks of all nodes of a request together, because its requestor waits for them.
	verifyTimeout = 5 * time.Second
)

// unverified returns the nodes that a step assigns and that were last checked more than verifyAfter ago. It omits nodes
// that were never checked because their configuration disables the check.
func (x *execution) unverified(s plan.Step) (nodes []*resources.Node) {
	if s.Kind != plan.KindServe {
		return nil
	}
	for _, id := range s.Nodes {
		n, ok := get[resources.Node](x.cache, resources.Key{Kind: resources.KindNode, ID: id})
		if ok && n.State == resources.StateReady && n.Request == "" && !n.VerifiedAt.IsZero() && x.Now().Sub(n.VerifiedAt) > verifyAfter {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// verify checks whether the nodes still answer, and takes silent nodes out of service. If there are any, it returns
// errChanged, because the plan is outdated.
func (x *execution) verify(ctx context.Context, nodes []*resources.Node) error {
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	silent, keys := make([]error, len(nodes)), make([][]string, len(nodes))
	done := make(chan struct{})
	for i, n := range nodes {
		go func() {
			keys[i], silent[i] = x.probeNode(ctx, n)
			done <- struct{}{}
		}()
	}
	for range nodes {
		<-done
	}
	var errs []error
	for i, before := range nodes {
		n, at := find[resources.Node](x.cache, before.Key())
		if n == nil || n.State != resources.StateReady || n.Request != "" {
			return fmt.Errorf("node %s: %w", before.ID, errChanged)
		}
		n.VerifiedAt = x.Now()
		if len(keys[i]) > 0 {
			n.HostKeys = keys[i]
		}
		if silent[i] != nil {
			x.Log.Warn("a ready node does not respond and is not assigned", "node", n.ID, "error", silent[i])
			n.StateTime, n.Error, n.Comment = x.Now(), silent[i].Error(), "it did not respond to the check before its assignment"
			if n.State = resources.StateUsed; n.Static { // it is checked again later; any other node is deleted
				n.State = resources.StateFailed
				n.Attempt++
			}
			errs = append(errs, fmt.Errorf("node %s: %w: %w", n.ID, errChanged, silent[i]))
		}
		if err := x.cache.replace(ctx, state.Op{Record: n, Revision: at}); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// probeNode returns the reason why a node must not be assigned, or nil, and the host keys of a static node: without
// host_keys, jobs trust those that the machine has now.
func (x *execution) probeNode(ctx context.Context, n *resources.Node) (keys []string, silent error) {
	if n.Static {
		provider, ok := x.Desired.Provider(n.Provider)
		if !ok {
			return nil, nil
		}
		_, machine := staticNode(provider, n.Pool, n.Hostname)
		if machine == nil {
			return nil, nil // a node that is no longer configured may still be assigned
		}
		return x.checkStatic(ctx, n.Provider, machine)
	}
	how := probeOf(n.Login)
	if how == probeNone {
		return nil, nil
	}
	port := cmp.Or(n.Login.ConnectionPort, defaultPorts[how])
	shown, err := x.probe(ctx, how, net.JoinHostPort(n.Addresses.Interface, strconv.FormatInt(port, 10)))
	if err != nil {
		return nil, err
	}
	if len(n.HostKeys) > 0 && !slices.ContainsFunc(shown, func(key string) bool { return slices.Contains(n.HostKeys, key) }) {
		return nil, errors.New("its host keys have changed since its launch")
	}
	return nil, nil
}
