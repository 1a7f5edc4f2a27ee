// Package watch implements the daemon, which continuously reconciles clouds and images with the configuration and
// serves node requests.
//
// The package contains neither planning nor execution: each pass computes a plan with package plan and runs its steps
// with package reconcile. A change of a record, of a provider's listing, of the configuration or of the time triggers a
// pass.
package watch

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/npctl/npctl/internal/waits"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

const (
	refreshEvery        = time.Minute          // default of Options.Refresh
	firstListingTimeout = 30 * time.Second     // how long builds wait for the formats of providers
	idleEvery           = 5 * time.Second      // maximum time between two passes: leases end, images age
	busyEvery           = time.Second          // the same while a request is open or a step waits for its retry
	passGap             = 2 * time.Millisecond // minimum time between two passes
	tidyEvery           = time.Minute          // between two writes of the history
	listRetryInterval   = 10 * time.Second     // delay after a provider did not respond
)

// Daemon reconciles clouds and images with the configuration. Run must be called only once.
type Daemon struct {
	Options
	Journal *Journal
	Clients *Clients

	runner     *reconcile.Runner
	config     *configuration
	suspension *suspension
	leadership *leadership
	images     *imageLocks
	duties     duties
	triggers   *triggers
	observer   *reconcile.Observer
	outages    *outages
	pollers    *pollers
	connection *connection
	presence   *presence
	stall      *stall
	use        *useRecorder // nil without the task nodes, and in a shadow
	shadow     *shadow      // nil unless Options.Shadow

	wake       chan struct{} // receives a hint after a change other than that of a record
	began      time.Time
	reloading  sync.Mutex                // held during Reload
	filesErr   lastError                 // reading the images directory
	builderErr lastError                 // determining the builder ID
	lastPass   atomic.Pointer[time.Time] // when the newest pass ended; nil before the first

	mu   sync.Mutex // guards last
	last Pass
}

// New returns a daemon, which takes over the engine's store: until Run returns, all writes must go through the daemon.
func New(ctx context.Context, o Options) (*Daemon, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Refresh <= 0 {
		o.Refresh = refreshEvery
	}
	if o.Stall <= 0 {
		o.Stall = stallAfter
	}
	d := &Daemon{Options: o, wake: make(chan struct{}, 1), last: Pass{Desired: o.Engine.Desired}, began: o.Engine.Now()}
	o.Engine.Report = d.report
	var err error
	if d.runner, err = reconcile.NewRunner(ctx, o.Engine); err != nil {
		return nil, err
	}
	if o.Shadow && d.runner.Shared() == nil {
		return nil, errors.New("watch -shadow needs a shared store; configure state \"zookeeper\"")
	}
	if d.Journal, err = openJournal(ctx, o.Engine.Store, d.runner.Commit); err != nil {
		return nil, err
	}
	d.Journal.onEvent = eventLogger(o.Log)
	d.Clients = &Clients{runner: d.runner, journal: d.Journal, desired: d.Desired, now: o.Engine.Now, taken: o.OnTaken, refused: o.RequestRefused}
	if d.runner.Shared() != nil {
		d.Clients.requestorPrefix = plan.OwnRequestor
	}
	installation, err := o.Engine.Installation(ctx) // passes name it as the owner of what they create, so the first one needs it
	if err != nil && !o.Shadow {
		return nil, err
	}
	d.observer = reconcile.NewObserver(d.runner, installation, d.notPlanned)
	d.assemble()
	return d, nil
}

// assemble creates the parts of the daemon. A shadow acquires no locks, acts as if it had them all, and writes nothing.
func (d *Daemon) assemble() {
	owned := d.runner.Shared() // the shared store, unless the daemon is a shadow
	if d.Shadow {
		owned = nil
	}
	d.config = newConfiguration(d.observer.Engine, d.AllowDestroy)
	d.suspension = &suspension{running: d.runner.Running, resumed: d.reloaded}
	d.leadership = newLeadership(owned, d.Log, d.suspension, d.runner.Abandon, d.triggerPass)
	d.images = &imageLocks{leadership: d.leadership, running: d.runner.Running, held: map[string]imageLock{},
		workOf: func(s plan.Step) (string, int) { return d.observer.Engine().WorkOf(s) }}
	d.duties = duties{assignment{d.Tasks, d.Providers, d.runner.Shared() != nil}, d.leadership, d.images}
	d.triggers = &triggers{}
	d.outages = &outages{log: d.Log, now: d.Engine.Now, lastPostponed: d.runner.LastPostponed, unreachable: map[string]bool{}, responded: map[string]bool{}}
	d.pollers = &pollers{runner: d.runner, observer: d.observer, duties: d.duties, refresh: d.Refresh, triggers: d.triggers,
		outages: d.outages, suspension: d.suspension, log: d.Log, readOnly: d.Shadow, triggerPass: d.triggerPass, running: map[string]bool{}}
	d.connection = &connection{store: d.runner.Shared(), log: d.Log}
	d.presence = &presence{store: owned, log: d.Log, registered: d.triggerPass, changed: make(chan struct{}, 1)}
	d.stall = &stall{after: d.Stall, log: d.Log, journal: d.Journal, progress: d.began}
	if d.duties.hasTask(TaskNodes) && !d.Shadow {
		d.use = &useRecorder{store: d.Engine.Store, log: d.Log, now: d.Engine.Now, last: d.Last, led: d.led, request: d.Clients.Request, unsaved: useHours{}}
	}
	if d.Shadow {
		d.shadow = newShadow(d.duties, d.Log, d.Journal, d.Compared)
	}
}

// Run serves until ctx is done. It then starts no more steps, waits up to grace for running steps, interrupts the
// others, and returns.
func (d *Daemon) Run(ctx context.Context, grace time.Duration) error {
	work, cut := context.WithCancel(context.WithoutCancel(ctx)) // steps outlive ctx
	defer cut()
	var helpers sync.WaitGroup
	side, stopSide := context.WithCancel(ctx)
	helpers.Go(func() { d.pollers.pollInputs(side) })
	helpers.Go(func() { d.Journal.Keep(side) })
	helpers.Go(func() { d.tidy(side) })
	helpers.Go(func() {
		if err := d.runner.Follow(side, d.onAnswer); err != nil && side.Err() == nil {
			d.Log.Error("changes of other processes cannot be followed", "error", err)
		}
	})
	helpers.Go(func() { d.presence.register(side) })
	if d.use != nil {
		helpers.Go(func() { d.use.keep(side, d.suspension.unlessSuspended) })
	}
	if d.leadership.store != nil && d.duties.hasTask(TaskImages) {
		helpers.Go(func() { d.leadership.maintain(side, state.ImagesLock, d.pollers.triggerAll, nil) })
		helpers.Go(func() { d.images.maintain(side) })
	}
	d.pollers.start(side, &helpers)
	d.loop(ctx, work)
	stopSide()
	helpers.Wait()
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	d.runner.Stop(limit, cut)
	if d.shadow != nil {
		d.shadow.logSummary()
	}
	finish, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer done()
	return errors.Join(d.tidyNow(finish), d.use.finish(finish), d.Journal.Flush(finish))
}

// loop runs a pass after each change and whenever nextPassDelay has passed.
func (d *Daemon) loop(ctx, work context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.runner.Changed():
		case <-d.wake:
		case <-timer.C:
		}
		used := d.cpuTime(func() { d.pass(work) })
		// passes use at most a quarter of a processor; one pass covers all changes during this pause
		if !sleep(ctx, max(3*used, passGap)) {
			return
		}
		timer.Reset(d.nextPassDelay())
	}
}

// cpuTime returns the CPU time of a call, so that a busy host makes no pause longer; without ThreadTime its duration.
func (d *Daemon) cpuTime(call func()) time.Duration {
	if d.ThreadTime == nil {
		began := time.Now()
		call()
		return time.Since(began)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := d.ThreadTime()
	call()
	return d.ThreadTime() - before
}

// nextPassDelay returns the time until the next pass when nothing triggers one earlier.
func (d *Daemon) nextPassDelay() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.last.Observed.FailingSteps) > 0 {
		return busyEvery
	}
	for _, r := range d.last.Observed.Records.Requests {
		if r.IsOpen() {
			return busyEvery
		}
	}
	return idleEvery
}

// Desired returns the configuration in force. After a reload the newest pass may still have used the previous one.
func (d *Daemon) Desired() resources.Desired { return d.observer.Engine().Desired }

// Last returns the newest pass.
func (d *Daemon) Last() Pass {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

// LastPassEnd returns when the newest pass ended, or the zero time before the end of the first. A healthy daemon
// completes a pass every few seconds. The time has a monotonic clock reading, so time.Since does not depend on changes
// of the wall clock.
func (d *Daemon) LastPassEnd() time.Time {
	if at := d.lastPass.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Observer returns the observer of the daemon.
func (d *Daemon) Observer() *reconcile.Observer { return d.observer }

// Runner returns the runner, through which clients change records and list running steps.
func (d *Daemon) Runner() *reconcile.Runner { return d.runner }

// triggerPass requests a pass.
func (d *Daemon) triggerPass() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// report handles a step event.
func (d *Daemon) report(event reconcile.Event) {
	if event.Kind == reconcile.EventDone {
		d.triggers.onStepDone(event.Step)
	} else if event.Err != nil {
		d.triggers.onStepFailed(event.Step, event.Err)
	}
	if event.Step.Kind == plan.KindLaunch {
		view, _ := d.observer.Listing(event.Step.Provider)
		d.outages.onLaunchResult(event, view)
	}
	d.stall.note(event)
	if d.use != nil {
		d.use.note(event)
	}
	d.Journal.AddStep(event)
	if d.OnStep != nil {
		d.OnStep(event)
	}
}

// tidy periodically records the durations of steps and removes unreferenced records.
func (d *Daemon) tidy(ctx context.Context) {
	for sleep(ctx, tidyEvery) {
		if err := d.suspension.unlessSuspended(func() error { return d.tidyNow(ctx) }); err != nil && ctx.Err() == nil {
			d.Log.Error("the state could not be cleaned up", "error", err)
		}
	}
}

// tidyNow is one round of tidy. A shadow runs no steps and writes nothing.
func (d *Daemon) tidyNow(ctx context.Context) error {
	if d.Shadow {
		return nil
	}
	return d.runner.Tidy(ctx)
}

// sleep waits for d and reports whether ctx is still active.
func sleep(ctx context.Context, d time.Duration) bool {
	return waits.Sleep(ctx, d) == nil && ctx.Err() == nil
}

// Options configures a Daemon. Only Engine is required.
type Options struct {
	Engine *reconcile.Engine
	// Load reads the configuration for Reload.
	Load func(ctx context.Context) (resources.Desired, error)
	// AllowDestroy consents to the deletions that the first configuration asks for.
	AllowDestroy bool
	// Providers are the providers to serve; empty means all.
	Providers []string
	// Tasks are the tasks to perform; when empty, hasTask chooses them.
	Tasks []Task
	// Refresh is the time between two listings of a provider without a trigger; 0 means 1 minute.
	Refresh time.Duration
	// MaxListingAge is how much older than a request a listing may be that shows the ready nodes it gets; 0: no limit.
	MaxListingAge time.Duration
	Log           *slog.Logger
	// ThreadTime, when set, returns the CPU time of the thread.
	ThreadTime func() time.Duration
	// OnPass, when set, is called with each pass, for example for metrics.
	OnPass func(Pass)
	// OnStep, when set, is called with each step event, one call at a time.
	OnStep func(reconcile.Event)
	// OnTaken, when set, is called with each request that a requestor has taken, and with its nodes.
	OnTaken func(*resources.Request, []*resources.Node)
	// RequestRefused, when set, is called for each request that the daemon refuses because max_requests are open.
	RequestRefused func()
	// Reloaded, when set, is called with the result of each Reload, one call at a time.
	Reloaded func(plan.Plan, error)
	// Stall is how long requests may wait without a launch or serve step before the daemon reports a stall; 0 means 15
	// minutes.
	Stall time.Duration
	// Shadow makes the daemon read-only: it decides, starts no steps, and compares its decisions with those of the
	// processes that serve. The store must be shared; the daemon needs no permission to write there.
	Shadow bool
	// Compared, when set, is called with each comparison that a shadow makes.
	Compared func(Comparison)
}

// ProvidersNotListed returns the providers to serve that have not been listed yet, successfully or not. New providers
// appear in it, and providers that this process becomes the leader of.
func (d *Daemon) ProvidersNotListed() (names []string) {
	desired := d.Desired()
	for i := range desired.Providers {
		name := desired.Providers[i].Name
		if _, listed := d.observer.Listing(name); !listed && d.duties.mayManage(name) {
			names = append(names, name)
		}
	}
	return names
}

// ProvidersNeverListed returns the providers to serve that have never been listed successfully.
func (d *Daemon) ProvidersNeverListed() (names []string) {
	desired := d.Desired()
	for i := range desired.Providers {
		if name := desired.Providers[i].Name; d.duties.mayManage(name) && !d.outages.hasResponded(name) {
			names = append(names, name)
		}
	}
	return names
}

// NotReady returns why the daemon cannot serve everything now, or an empty string when it can. After its first listing, an
// outage of a provider does not count.
func (d *Daemon) NotReady() string {
	switch unlisted := d.ProvidersNeverListed(); {
	case d.connection.isDown():
		return "the state is unreachable"
	case len(unlisted) > 0:
		return "never listed successfully: " + strings.Join(unlisted, ", ")
	case d.LastPassEnd().IsZero():
		return "no pass has completed yet"
	default:
		return ""
	}
}
