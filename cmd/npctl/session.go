package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/npctl/npctl/config"
	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/plan/snapshot"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// session is a configuration with its state and the engine that connects to its clouds.
type session struct {
	app      *app
	config   *configuration
	place    statePlace
	store    stateStore // nil with a snapshot
	identity state.Identity
	engine   *reconcile.Engine
	seen     plan.Observed
	snapshot *snapshot.Snapshot // nil with a state
	boundary string             // with a snapshot: the directory that input files must be in
	rules    *ruleSet           // nil without rules
	notes    []plan.Note        // about the observed state, beside those of the plan
}

// loadSession reads the configuration, without its warnings, and opens a session.
func (a *app) loadSession(ctx context.Context, v variableOptions, parallelism int, may access) (*session, error) {
	config, err := a.load(v)
	if err != nil {
		return nil, err
	}
	return a.openSession(ctx, config, parallelism, may)
}

func (a *app) openSession(ctx context.Context, c *configuration, parallelism int, may access) (*session, error) {
	place, err := a.stateOf(c.Desired.Settings)
	if err != nil {
		return nil, err
	}
	if may == shadowState {
		place.Location = place.Shadow()
	}
	store, err := place.open(ctx, may)
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
		Builders: able, DataDir: dataDir(place.File), Log: a.log})
	c.Desired = s.engine.Desired
	return s, nil
}

// limitSteps limits the concurrent steps of every provider to parallelism, unless its own limit is lower. 0 means no
// further limit.
func limitSteps(providers []resources.Provider, parallelism int) {
	for i := range providers {
		if p := &providers[i]; parallelism > 0 && (p.MaxConcurrency <= 0 || p.MaxConcurrency > int64(parallelism)) {
			p.MaxConcurrency = int64(parallelism)
		}
	}
}

// close ends the session. It logs errors as warnings, because the work is complete.
func (s *session) close() {
	if err := s.engine.Close(); err != nil {
		s.app.log.Warn("a provider was not closed properly", "error", err)
	}
	if s.store == nil {
		return
	}
	if err := s.store.Close(); err != nil {
		s.app.log.Warn("the state was not closed properly", "error", err)
	}
}

// plan rejects unknown addresses and then calls compute.
func (s *session) plan(ctx context.Context, o *planOptions, opt plan.Options) (plan.Plan, error) {
	if err := s.checkAddresses(ctx, opt); err != nil {
		return plan.Plan{}, err
	}
	return s.compute(ctx, o, opt)
}

// checkAddresses rejects unknown addresses in the options, without querying the clouds.
func (s *session) checkAddresses(ctx context.Context, opt plan.Options) error {
	if len(opt.Targets)+len(opt.Excludes)+len(opt.Replace) == 0 {
		return nil
	}
	recorded, err := s.observe(ctx, false)
	if err != nil {
		return err
	}
	return checkAddresses(opt, s.config.Desired, recorded)
}

// compute observes the records and clouds and computes the plan.
func (s *session) compute(ctx context.Context, o *planOptions, opt plan.Options) (plan.Plan, error) {
	var err error
	if s.seen, err = s.observeWithLock(ctx, o.refresh); err != nil {
		return plan.Plan{}, err
	}
	return describedPlan(s.config.Desired, s.seen, opt), nil
}

// describedPlan computes a plan for readers.
func describedPlan(want resources.Desired, seen plan.Observed, opt plan.Options) plan.Plan {
	p := plan.Compute(want, seen, opt)
	p.Describe(want, seen, opt)
	return p
}

// observeWithLock is observe with the process that holds the lock of the state.
func (s *session) observeWithLock(ctx context.Context, refresh bool) (plan.Observed, error) {
	if s.snapshot != nil {
		return s.observe(ctx, refresh)
	}
	worker, err := s.lockHolder(ctx) // before observe: if it ends in between, its unfinished records would look abandoned
	if err != nil {
		return plan.Observed{}, err
	}
	seen, err := s.observe(ctx, refresh)
	if err != nil {
		return seen, err
	}
	if seen.LockHolder, err = s.lockHolder(ctx); seen.LockHolder == nil {
		seen.LockHolder = worker
	}
	return seen, err
}

// observe returns the observed state. If npctl watch is running, that includes its activity and that of other processes
// in its state.
func (s *session) observe(ctx context.Context, refresh bool) (seen plan.Observed, err error) {
	if s.snapshot != nil {
		seen, s.notes, err = s.engine.ObserveSnapshot(ctx, s.snapshot, func(path string) error { return config.CheckBoundary(s.boundary, path) })
		s.notes = append(s.notes, s.ageNote())
		return seen, err
	}
	done := s.showWaiting(refresh)
	seen, err = s.engine.Observe(ctx, refresh)
	done()
	daemon, running := s.store.(*daemonStore)
	if err != nil || !running {
		return seen, err
	}
	work, err := daemon.Activity(ctx)
	if err != nil {
		return seen, err
	}
	s.engine.AddActivity(&seen, reconcile.Activity(work))
	return seen, nil
}

// lockHolder returns the process that works on the state, or nil if there is none or it is this one.
func (s *session) lockHolder(ctx context.Context) (*plan.LockHolder, error) {
	if s.store == nil {
		return nil, nil
	}
	holder, err := s.store.Worker(ctx, stateLock)
	if err != nil || holder == nil || holder.ID == s.app.lockID {
		return nil, err
	}
	return inspect.LockHolder(holder), nil
}

// showWaiting prints the names of the providers on a terminal while they are listed.
func (s *session) showWaiting(refresh bool) (done func()) {
	if !refresh || !s.app.ui.ErrTerm || len(s.config.Desired.Providers) == 0 {
		return func() {}
	}
	names := make([]string, len(s.config.Desired.Providers))
	for i := range s.config.Desired.Providers {
		names[i] = s.config.Desired.Providers[i].Name
	}
	line := fmt.Sprintf("Listing %s ...", text.Count(len(names), "provider", "providers"))
	if len(names) < 4 {
		line = "Listing " + strings.Join(names, ", ") + " ..."
	}
	return s.app.ui.Waiting(line)
}

// meta returns the metadata of a plan of this session.
func (s *session) meta(opt plan.Options) plan.Meta {
	return plan.Meta{NpctlVersion: version(), Lineage: s.identity.Lineage, Serial: s.identity.Serial,
		Digest: string(s.config.Desired.Digests.Current()), Created: s.seen.Now.UTC(), Options: opt}
}
