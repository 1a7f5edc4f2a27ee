package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// sourceRecords gives drivers access to requests and nodes. Engines for newer configurations share it.
type sourceRecords struct {
	store state.Store

	mu      sync.Mutex         // guards the fields below
	run     *sharedRun         // of the newest execution; nil: the records are read from the store and not changed
	desired *resources.Desired // the configuration in force
}

// use sets the run with the cache of the records.
func (s *sourceRecords) use(run *sharedRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run = run
}

// activate sets the configuration in force.
func (s *sourceRecords) activate(desired *resources.Desired) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.desired = desired
}

func (s *sourceRecords) current() (*sharedRun, *resources.Desired) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run, s.desired
}

// backingPriority is the priority of requests for backing nodes: jobs wait for them.
const backingPriority = 100

// nodeSource is the drivers.NodeSource of one provider.
type nodeSource struct {
	*sourceRecords
	engine    *Engine // that opened the provider
	provider  string
	requestor string
}

var _ drivers.NodeSource = (*nodeSource)(nil)

func (e *Engine) nodeSource(driver, provider string) *nodeSource {
	return &nodeSource{sourceRecords: e.sources, engine: e, provider: provider, requestor: resources.SourceRequestor(driver, provider)}
}

// Labels implements drivers.NodeSource.
func (s *nodeSource) Labels(ctx context.Context) (map[string][]string, error) {
	run, desired := s.current()
	offered := map[string][]string{}
	for i := range desired.Providers {
		p := &desired.Providers[i]
		for _, pool := range p.Pools {
			for _, label := range pool.LabelNames() {
				offered[label] = append(offered[label], p.Driver)
			}
		}
	}
	if run != nil && run.cache.claims.store != nil {
		for _, pool := range run.cache.claims.store.RegisteredPools() {
			for _, label := range pool.Labels {
				if !pool.Own {
					offered[label] = append(offered[label], "")
				}
			}
		}
	}
	return offered, ctx.Err()
}

// Serving implements drivers.NodeSource.
func (s *nodeSource) Serving() bool {
	run, _ := s.current()
	return run != nil && run.continuous
}

// Request implements drivers.NodeSource.
func (s *nodeSource) Request(ctx context.Context, label string) (string, error) {
	run, _ := s.current()
	if run == nil {
		return "", drivers.ErrReadOnly
	}
	now := s.engine.Now()
	r := &resources.Request{State: resources.StateRequested, StateTime: now, Created: now, Labels: []string{label}, Priority: backingPriority, Requestor: s.requestor}
	entries, err := run.cache.commit(ctx, "", []state.Op{{Record: r}})
	if err != nil {
		return "", err
	}
	id := entries[0].Record.Key().ID
	s.engine.Log.Info("backing node requested", "provider", s.provider, "request", id, "label", label)
	return id, nil
}

// List implements drivers.NodeSource.
func (s *nodeSource) List(ctx context.Context) (drivers.SourcedNodes, error) {
	records, err := s.records(ctx)
	if err != nil {
		return drivers.SourcedNodes{}, err
	}
	_, desired := s.current()
	moves := desired.Moves
	if _, inForce := desired.Provider(s.provider); !inForce { // a reload lists the provider before it puts its configuration in force
		moves = s.engine.Desired.Moves
	}
	var found drivers.SourcedNodes
	for _, r := range records.Requests {
		if r = underPresentNames(moves, r); r.Requestor == s.requestor {
			found.Requests = append(found.Requests, r)
		}
	}
	for _, n := range records.Nodes {
		switch n = underPresentNames(moves, n); {
		case n.Provider == s.provider:
			found.Own = append(found.Own, n)
		case n.Requestor == s.requestor && n.State.IsInService():
			found.InUse = append(found.InUse, n)
		}
	}
	return found, ctx.Err()
}

// underPresentNames returns a record as it will be after the moved blocks of the configuration.
func underPresentNames[R resources.Record](moves resources.Moves, record R) R {
	renamed, _ := moves.Apply(record)
	return renamed.(R)
}

// records returns the requests and nodes of the run, or of the store before there is one.
func (s *nodeSource) records(ctx context.Context) (records plan.Records, err error) {
	if run, _ := s.current(); run != nil {
		records, _ = run.cache.snapshot()
		return records, nil
	}
	entries, err := s.store.List(ctx, resources.KindNode, resources.KindRequest)
	if err != nil {
		return records, fmt.Errorf("read state: %w", err)
	}
	for _, entry := range entries {
		switch r := entry.Record.(type) {
		case *resources.Node:
			records.Nodes = append(records.Nodes, r)
		case *resources.Request:
			records.Requests = append(records.Requests, r)
		}
	}
	return records, nil
}

// Take implements drivers.NodeSource.
func (s *nodeSource) Take(ctx context.Context, request string) error {
	return s.change(ctx, func(cache *recordCache) ([]state.Op, error) {
		return s.taken(cache, request, resources.StateInUse)
	})
}

// taken returns the operations that end a fulfilled request and put its node into a state.
func (s *nodeSource) taken(cache *recordCache, request string, becomes resources.State) ([]state.Op, error) {
	r, at := find[resources.Request](cache, resources.Key{Kind: resources.KindRequest, ID: request})
	switch {
	case r == nil || r.Requestor != s.requestor:
		return nil, nil
	case r.State == resources.StateRequested && becomes == resources.StateUsed:
		return []state.Op{{Key: r.Key(), Revision: at}}, nil
	case r.State != resources.StateFulfilled:
		return nil, fmt.Errorf("request %s is %s: %w", request, r.State, errChanged)
	}
	ops := []state.Op{{Key: r.Key(), Revision: at}}
	for _, id := range r.Nodes {
		n, at := find[resources.Node](cache, resources.Key{Kind: resources.KindNode, ID: id})
		if n == nil {
			return nil, fmt.Errorf("node %s of request %s: %w", id, request, errChanged)
		}
		n.State, n.StateTime, n.IdleSince = becomes, s.engine.Now(), s.engine.Now()
		ops = append(ops, state.Op{Record: n, Revision: at})
	}
	return ops, nil
}

// MarkIdle implements drivers.NodeSource.
func (s *nodeSource) MarkIdle(ctx context.Context, request string) error {
	return s.changeNode(ctx, request, func(n *resources.Node) { n.IdleSince = s.engine.Now() })
}

// Retire implements drivers.NodeSource.
func (s *nodeSource) Retire(ctx context.Context, request string) error {
	return s.changeNode(ctx, request, func(n *resources.Node) { n.Retired = true })
}

// changeNode changes the node of a request that the provider uses, if there is one.
func (s *nodeSource) changeNode(ctx context.Context, request string, set func(*resources.Node)) error {
	return s.change(ctx, func(cache *recordCache) ([]state.Op, error) {
		n, at := s.inUse(cache, request)
		if n == nil {
			return nil, nil
		}
		set(n)
		return []state.Op{{Record: n, Revision: at}}, nil
	})
}

// Return implements drivers.NodeSource.
func (s *nodeSource) Return(ctx context.Context, request string) error {
	return s.change(ctx, func(cache *recordCache) ([]state.Op, error) {
		n, at := s.inUse(cache, request)
		if n == nil {
			return s.taken(cache, request, resources.StateUsed)
		}
		n.State, n.StateTime = resources.StateUsed, s.engine.Now()
		return []state.Op{{Record: n, Revision: at}}, nil
	})
}

// inUse returns the node of a request that the provider uses, or nil.
func (s *nodeSource) inUse(cache *recordCache, request string) (*resources.Node, state.Revision) {
	for _, n := range all[resources.Node](cache) {
		if n.Request == request && n.Requestor == s.requestor && n.State == resources.StateInUse {
			return find[resources.Node](cache, n.Key())
		}
	}
	return nil, 0
}

// changeAttempts limits the repetitions of a change after another process has changed the same records.
const changeAttempts = 5

// change commits operations on the current records, which make computes; none means that there is nothing to change.
func (s *nodeSource) change(ctx context.Context, make func(*recordCache) ([]state.Op, error)) error {
	run, _ := s.current()
	if run == nil {
		return drivers.ErrReadOnly
	}
	for left := changeAttempts; ; left-- {
		ops, err := make(run.cache)
		if err != nil || len(ops) == 0 {
			return err
		}
		if _, err = run.cache.commit(ctx, "", ops); err == nil || left <= 1 || !errors.Is(err, state.ErrConflict) || ctx.Err() != nil {
			return err
		}
	}
}

// unneeded lists the nodes and requests that a provider no longer needs.
func (e *Engine) unneeded(ctx context.Context, name string, user drivers.NodeUser) ([]resources.UnneededNode, error) {
	p, ok := e.Desired.Provider(name)
	if !ok {
		return user.Unneeded(ctx, nil)
	}
	var offers []cty.Value
	for _, pool := range p.Pools {
		for _, offer := range pool.Offers {
			offers = append(offers, offer.Config)
		}
	}
	return user.Unneeded(ctx, offers)
}

// updateNode changes the record of a node: it returns a backing node through the driver that uses it, or ends its
// assignment or use.
func (x *execution) updateNode(ctx context.Context, s plan.Step) error {
	if s.Reason != plan.ReasonIdle {
		return requestRecords{x.cache, x.Now}.updateNode(ctx, s)
	}
	cloud, release, err := x.cloud(ctx, s.Provider, x.cache.provider(s.Provider))
	defer release()
	if err != nil {
		return err
	}
	user, ok := drivers.NodeUserOf(cloud)
	if !ok {
		return drivers.ErrNotSupported
	}
	if err = user.ReturnNode(ctx, s.Request); errors.Is(err, drivers.ErrInUse) {
		return fmt.Errorf("%w: %w", errChanged, err)
	}
	return err
}
