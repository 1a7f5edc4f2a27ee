package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// session is a configuration with its state and the way to its clouds.
type session struct {
	app      *app
	config   *configuration
	place    statePlace
	store    stateStore
	identity state.Identity
	engine   *reconcile.Engine
	seen     plan.Observed
}

// access says what a session may do with the state.
type access int

const (
	readState access = iota
	writeState
	ownState   // writeState, and never that of a daemon: for those who would be one themselves
	asideState // ownState for those who only look on, and write nothing but what they note for themselves
)

func (a *app) openSession(ctx context.Context, c *configuration, parallelism int, may access) (*session, error) {
	place, err := a.statePlace(c.Desired.Settings)
	if err != nil {
		return nil, err
	}
	var store stateStore
	switch may {
	case asideState:
		place = place.aside()
		store, err = untyped(a.openAside(ctx, place))
	case ownState:
		store, err = a.openPlace(ctx, place, false)
	default:
		store, err = a.openState(ctx, place, may == readState)
	}
	if err != nil {
		return nil, err
	}
	s := &session{app: a, config: c, place: place, store: store}
	if s.identity, err = store.Identity(ctx); err != nil {
		_ = store.Close() // nothing was written
		return nil, err
	}
	limitSteps(c.Desired.Providers, parallelism)
	able, err := c.registry.buildersFor(c.Desired.Settings, a.log)
	if err != nil {
		_ = store.Close() // nothing was written
		return nil, err
	}
	s.engine = reconcile.New(reconcile.Options{Desired: c.Desired, HashKey: s.identity.HashKey, Store: store, Drivers: c.registry.drivers,
		Builders: able, DataDir: dataDir(place.file), Log: a.log})
	c.Desired = s.engine.Desired
	return s, nil
}

// limitSteps keeps every provider to so many steps at a time, where its own limit is not lower; 0 means no further limit.
func limitSteps(providers []resources.Provider, parallelism int) {
	for i := range providers {
		if p := &providers[i]; parallelism > 0 && (p.MaxConcurrency <= 0 || p.MaxConcurrency > int64(parallelism)) {
			p.MaxConcurrency = int64(parallelism)
		}
	}
}

// close ends the session. What could not be given back is a warning: the work is done.
func (s *session) close() {
	if err := s.engine.Close(); err != nil {
		s.app.log.Warn("a provider was not left properly", "error", err)
	}
	if err := s.store.Close(); err != nil {
		s.app.log.Warn("the state was not closed properly", "error", err)
	}
}

// plan is compute, after addresses that name nothing were refused. The clouds need not be asked for that.
func (s *session) plan(ctx context.Context, o *planOptions, opt plan.Options) (plan.Plan, error) {
	if len(opt.Targets)+len(opt.Excludes)+len(opt.Replace) > 0 {
		recorded, err := s.engine.Observe(ctx, false)
		if err != nil {
			return plan.Plan{}, err
		}
		if err := checkAddresses(opt, s.config.Desired, recorded); err != nil {
			return plan.Plan{}, err
		}
	}
	return s.compute(ctx, o, opt)
}

// compute looks at the world and decides what to do.
func (s *session) compute(ctx context.Context, o *planOptions, opt plan.Options) (plan.Plan, error) {
	worker, err := s.worker(ctx) // one that ends while this looks has left records that show it at work
	if err != nil {
		return plan.Plan{}, err
	}
	done := s.looking(o.refresh)
	seen, err := s.engine.Observe(ctx, o.refresh)
	done()
	if err != nil {
		return plan.Plan{}, err
	}
	if seen.Worker, err = s.worker(ctx); err != nil {
		return plan.Plan{}, err
	}
	if seen.Worker == nil {
		seen.Worker = worker
	}
	if daemon, ok := s.store.(*daemonStore); ok {
		if err := beside(ctx, daemon, &seen); err != nil {
			return plan.Plan{}, err
		}
	}
	s.seen = seen
	return plan.Compute(s.config.Desired, seen, opt), nil
}

// worker is another process that works on the state. Whoever holds the lock itself meets none.
func (s *session) worker(ctx context.Context) (*plan.Worker, error) {
	holder, err := s.store.Worker(ctx, stateLock)
	if err != nil || holder == nil || holder.ID == s.app.lockID {
		return nil, err
	}
	return &plan.Worker{Operation: holder.Operation, Who: holder.Who, Host: holder.Host, PID: holder.PID, Since: holder.Since}, nil
}

// beside adds what the daemon does, and what others do in its state. What is asked for there is served by the daemon.
func beside(ctx context.Context, daemon *daemonStore, seen *plan.Observed) error {
	work, err := daemon.Work(ctx)
	if err != nil {
		return err
	}
	seen.Busy, seen.Shared, seen.Claimed, seen.Peers = keySet(work.Busy), work.Shared, keySet(work.Claimed), work.Peers
	seen.Wished = work.Wished
	for i := range seen.Peers {
		seen.Peers[i].Own = false
	}
	return nil
}

func keySet(keys []resources.Key) map[resources.Key]bool {
	set := make(map[resources.Key]bool, len(keys))
	for _, key := range keys {
		set[key] = true
	}
	return set
}

// looking tells people on a terminal what they wait for.
func (s *session) looking(refresh bool) (done func()) {
	if !refresh || !s.app.ui.errTerm || len(s.config.Desired.Providers) == 0 {
		return func() {}
	}
	names := make([]string, len(s.config.Desired.Providers))
	for i := range s.config.Desired.Providers {
		names[i] = s.config.Desired.Providers[i].Name
	}
	text := fmt.Sprintf("Looking at %s ...", countWord(len(names), "provider", "providers"))
	if len(names) < 4 {
		text = "Looking at " + strings.Join(names, ", ") + " ..."
	}
	text = shortenMiddle(visibleLine(text), max(s.app.ui.errWidth()-1, 20)) // one line, which can be taken back
	_, _ = fmt.Fprint(s.app.ui.err, s.app.ui.style(styleFaint, text))
	return func() { _, _ = fmt.Fprint(s.app.ui.err, "\r\x1b[K") }
}

// meta says where a plan of this session comes from.
func (s *session) meta(opt plan.Options) plan.Meta {
	return plan.Meta{NpctlVersion: version(), Lineage: s.identity.Lineage, Serial: s.identity.Serial,
		Digest: string(s.config.Desired.Digests.Current()), Created: s.seen.Now.UTC(), Options: opt}
}
