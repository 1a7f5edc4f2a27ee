// Package watch is the daemon: it keeps the world as declared, for ever, and serves node requests.
//
// It adds no way of deciding and no way of doing: each pass computes a plan with package plan, and package reconcile does
// its steps. A pass follows whenever something has changed: a record, what a provider shows, the configuration, the time.
package watch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
)

// Options is what a Daemon works with. Engine is needed.
type Options struct {
	Engine *reconcile.Engine
	// Load reads the configuration anew, for Reload.
	Load func(ctx context.Context) (resources.Desired, error)
	// AllowDestroy consents to whatever the first configuration removes.
	AllowDestroy bool
	// Providers are those to serve; empty means all.
	Providers []string
	// Tasks are what to do; empty means all, but see does.
	Tasks []Task
	// Refresh is the time between two listings of a provider in which nothing happens.
	Refresh time.Duration
	Log     *slog.Logger
	// Observe, when set, is told of each pass, such as for metrics.
	Observe func(Pass)
	// Step, when set, is told what happens to steps, one call at a time.
	Step func(reconcile.Event)
	// Taken, when set, is told of each request whose nodes were handed to its requestor.
	Taken func(*resources.Request, []*resources.Node)
	// RequestRefused, when set, is called for each request that is refused since too many are open.
	RequestRefused func()
	// Reloaded, when set, is told what became of each Reload, one call at a time.
	Reloaded func(plan.Plan, error)
	// Stall is how long requests may wait while nothing is launched or served before that is told; 0 means 15 minutes.
	Stall time.Duration
	// Shadow makes the daemon look on while others serve: it decides, begins nothing, and compares. The store must be one that
	// others work in; it needs no right to write there.
	Shadow bool
	// Compared, when set, is told of each request that a shadow has compared.
	Compared func(Verdict)
}

const (
	refreshEvery = time.Minute             // where Options does not say
	firstLooks   = 30 * time.Second        // that builds wait for the formats of providers
	idleEvery    = 5 * time.Second         // the longest time between two passes: leases end, images age
	busyEvery    = time.Second             // the same while something waits
	passGap      = 2 * time.Millisecond    // the least time between two passes
	tidyEvery    = time.Minute             // between two writings of the history
	retryLook    = 10 * time.Second        // after a provider did not answer
	notLooked    = "nobody has looked yet" // at a provider, in the first moments
)

// Daemon keeps the world as declared. Run it once.
type Daemon struct {
	Options
	runner  *reconcile.Runner
	wake    chan struct{} // gets a hint after something but a record has changed
	nudges  nudges
	Journal *Journal

	mu      sync.Mutex        // guards what follows
	current *reconcile.Engine // with the newest configuration; Options.Engine has the first
	views   map[string]plan.ProviderView
	around  plan.Observed   // what is neither in clouds nor in the store
	others  map[string]bool // providers that this daemon was told not to serve
	away    map[string]bool // providers that do not answer, as was told
	lookers map[string]bool // providers that somebody looks at
	side    context.Context // ends with Run, and with it those who look
	helpers *sync.WaitGroup
	last    Pass
	began   time.Time
	// Removals that the configuration in force asks for: whether somebody has consented, why they are held back since some
	// pass, and why the newest pass holds them back.
	consented        bool
	holding, heldNow *plan.Consent
	config           ConfigState // but for what the newest plan says
	oldState         string      // why leaks are left alone, in the newest pass

	reloading sync.Mutex // held while the configuration is read anew

	filesErr   string         // why the newest pass could not look at the images directory; only passes use it
	builderErr string         // why the newest pass had no id of the builder; only passes use it
	rivals     map[rival]bool // that have been told of; only passes use it

	tenures tenures
	roster  roster
	stall   stall
	shadow  *shadow // nil unless Options.Shadow
	parking parking
	beat    atomic.Pointer[time.Time] // when the newest pass ended; nil before the first
}

// New returns a daemon. It takes over the engine's store: until Run has ended, everything that is written goes through
// the daemon.
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
	d := &Daemon{Options: o, wake: make(chan struct{}, 1), current: o.Engine, last: Pass{Desired: o.Engine.Desired}, views: map[string]plan.ProviderView{}, others: map[string]bool{}, away: map[string]bool{},
		began: o.Engine.Now(), consented: o.AllowDestroy, config: ConfigState{Taken: o.Engine.Now()}, lookers: map[string]bool{},
		tenures: newTenures(), roster: newRoster()}
	o.Engine.Report = d.report
	var err error
	if d.runner, err = reconcile.NewRunner(ctx, o.Engine); err != nil {
		return nil, err
	}
	if o.Shadow {
		if d.runner.Shared() == nil {
			return nil, errors.New("a shadow needs a state that others work in")
		}
		d.shadow = newShadow()
	}
	if d.Journal, err = openJournal(ctx, d.runner, o.Engine.Store); err != nil {
		return nil, err
	}
	d.Journal.tell = story(o.Log)
	d.stall.progress = o.Engine.Now()
	return d, nil
}

// Run serves until ctx ends. Then it begins nothing any more, waits for what runs as long as grace allows, and returns.
func (d *Daemon) Run(ctx context.Context, grace time.Duration) error {
	work, cut := context.WithCancel(context.WithoutCancel(ctx)) // steps outlive ctx
	defer cut()
	var helpers sync.WaitGroup
	side, stopSide := context.WithCancel(ctx)
	d.mu.Lock()
	d.side, d.helpers = side, &helpers
	d.mu.Unlock()
	helpers.Go(func() { d.lookAround(side) })
	helpers.Go(func() { d.Journal.keep(side) })
	helpers.Go(func() { d.tidy(side) })
	helpers.Go(func() { d.follow(side) })
	helpers.Go(func() { d.register(side) })
	helpers.Go(func() { d.keepImages(side) })
	d.watchProviders(side, &helpers)
	d.loop(ctx, work)
	stopSide()
	helpers.Wait()
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	d.runner.Stop(limit, cut)
	d.sumUp()
	finish, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer done()
	return errors.Join(d.tidyNow(finish), d.Journal.flush(finish))
}

// loop makes a pass whenever something has changed.
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
		thought := d.pass(work)
		select { // at most half of a processor goes into passes, and what comes meanwhile is seen by one of them
		case <-time.After(max(thought, passGap)):
		case <-ctx.Done():
			return
		}
		timer.Reset(d.rest())
	}
}

// rest is how long to wait for the next pass when nothing happens.
func (d *Daemon) rest() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.last.Seen.Failing) > 0 {
		return busyEvery
	}
	for _, r := range d.last.Seen.Records.Requests {
		if r.Waits() {
			return busyEvery
		}
	}
	return idleEvery
}

// Desired is the configuration in force. After a reload the newest pass may not know it yet.
func (d *Daemon) Desired() resources.Desired { return d.engine().Desired }

func (d *Daemon) engine() *reconcile.Engine {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.current
}

// Last returns the newest pass.
func (d *Daemon) Last() Pass {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

// Beat is when the newest pass ended: passes follow each other within seconds for as long as all is well. It is zero
// before the first. It has a monotonic clock reading, so time.Since does not depend on how the wall clock is set.
func (d *Daemon) Beat() time.Time {
	if at := d.beat.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Runner is how clients change records, and see what is being done.
func (d *Daemon) Runner() *reconcile.Runner { return d.runner }

// nudge asks for a pass.
func (d *Daemon) nudge() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// report is told what happens to steps.
func (d *Daemon) report(event reconcile.Event) {
	if event.Kind == reconcile.EventDone {
		d.nudges.after(event.Step)
	}
	if event.Step.Action == plan.ActionLaunch {
		d.launched(event)
	}
	d.stall.note(event)
	d.Journal.step(event)
	if d.Step != nil {
		d.Step(event)
	}
}

// tidy writes down from time to time how long things took, and drops what nothing refers to.
func (d *Daemon) tidy(ctx context.Context) {
	for sleep(ctx, tidyEvery) {
		if err := d.unlessParked(func() error { return d.tidyNow(ctx) }); err != nil && ctx.Err() == nil {
			d.Log.Error("the state could not be tidied", "error", err)
		}
	}
}

// tidyNow writes what a shadow has nothing of.
func (d *Daemon) tidyNow(ctx context.Context) error {
	if d.Shadow {
		return nil
	}
	return d.runner.Tidy(ctx)
}

// sleep waits, and reports whether ctx still lives.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
