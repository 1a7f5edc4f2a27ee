package watch

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
)

// Pass is the result of one cycle of the daemon: the observed state, the plan and the started steps.
type Pass struct {
	Desired  resources.Desired
	Observed plan.Observed
	Plan     plan.Plan
	Started  []plan.Step
	Leads    map[string]bool // providers that this process leads in a shared store; nil without one and in a shadow
	Took     time.Duration
}

// pass observes, plans and starts steps.
func (d *Daemon) pass(ctx context.Context) {
	started := time.Now()
	defer func() { now := time.Now(); d.lastPass.Store(&now) }()
	connected, reconnected := d.connection.check()
	if !connected {
		return
	}
	d.images.startPass(len(d.observer.Engine().Desired.Images) > 0)
	engine, seen, filesErr := d.observer.Observe()
	d.logFilesError(filesErr)
	seen.StoreReconnected, seen.MaxListingAge = reconnected, d.MaxListingAge
	p := d.decide(engine.Desired, seen)
	d.logPlan(engine, p)
	for _, provider := range p.Relist {
		d.triggers.trigger(provider)
	}
	todo := p
	todo.Steps = runnableSteps(p, sync.OnceValue(func() bool { return d.providersListed(engine.Desired, seen.Now) }))
	d.images.setWanted(todo.Steps)
	pass := Pass{Desired: engine.Desired, Observed: seen, Plan: p, Started: d.startSteps(ctx, todo, seen)}
	if d.leadership.store != nil {
		pass.Leads = d.led()
	}
	pass.Took = time.Since(started)
	d.mu.Lock()
	d.last = pass
	d.mu.Unlock()
	if d.OnPass != nil {
		d.OnPass(pass)
	}
	if d.shadow != nil {
		d.shadow.compare(pass)
		return
	}
	requests := seen.Records.Requests
	if seen.Shared {
		requests = slices.DeleteFunc(slices.Clone(requests), func(r *resources.Request) bool { return !plan.Concerns(seen, r, d.duties.leads) })
	}
	d.stall.check(pass, requests)
	if d.runner.Shared() != nil {
		d.presence.publish(resources.Presence{Pools: d.pools(engine.Desired, seen, p.Waiting), Builder: d.builderID(engine)})
	}
}

// startSteps starts the steps that this process may run and returns them, unless the daemon is suspended or a shadow.
func (d *Daemon) startSteps(ctx context.Context, p plan.Plan, seen plan.Observed) (started []plan.Step) {
	if d.Shadow {
		return nil
	}
	_ = d.suspension.unlessSuspended(func() error {
		p.Steps = slices.DeleteFunc(slices.Clone(p.Steps), func(s plan.Step) bool { return !d.duties.mayRun(&s) })
		started = d.runner.Start(ctx, p, seen)
		return nil
	})
	return started
}

// led returns the providers that this process leads in a shared store.
func (d *Daemon) led() map[string]bool {
	led := map[string]bool{}
	for _, name := range d.pollers.providers() {
		if d.duties.leads(name) {
			led[name] = true
		}
	}
	return led
}

// logFilesError logs when the images directory starts and stops to be unreadable. Passes then leave its files unchanged
// and continue with everything else.
func (d *Daemon) logFilesError(err error) {
	switch changed := d.filesErr.update(err); {
	case changed && err != nil:
		d.Log.Error("the images directory cannot be read", "error", err)
	case changed:
		d.Log.Info("the images directory can be read again")
	}
}

// lastError is the newest result of a repeated operation. Only passes use it.
type lastError struct{ text string }

// update stores a result and reports whether it differs from the previous one.
func (l *lastError) update(err error) (changed bool) {
	before := l.text
	l.text = ""
	if err != nil {
		l.text = err.Error()
	}
	return l.text != before
}

// logPlan logs when the deletions of a plan start to need consent, and when the state is found to be outdated. A shadow
// deletes nothing.
func (d *Daemon) logPlan(engine *reconcile.Engine, p plan.Plan) {
	if d.Shadow {
		return
	}
	consent, outdated := d.config.notePlan(engine, p)
	if consent != nil {
		d.Log.Error("deletions need consent", "reason", consent.Error(), "steps", len(stepsNeedingConsent(p)), "hint", "if they are intended, run npctl reload -allow-destroy")
		d.Journal.add(resources.Event{Time: engine.Now(), Code: "consent-required", Subject: configSubject, Text: consent.Error()})
	}
	if outdated != "" {
		d.Log.Error("the state is older than the clouds", "reason", outdated, "hint", "docs/operations.md, backup and restore")
		d.Journal.add(resources.Event{Time: engine.Now(), Code: plan.NoteOldState, Subject: configSubject, Text: outdated})
	}
}

// runnableSteps returns the steps that may start: none that needs consent, no deletion of an address with a problem,
// and no build before the formats are known.
func runnableSteps(p plan.Plan, providersListed func() bool) []plan.Step {
	forbidden := map[plan.Address]bool{}
	for _, problem := range p.Problems {
		forbidden[problem.Address] = true
	}
	var steps []plan.Step
	for i := range p.Steps {
		s := &p.Steps[i]
		if s.NeedsConsent || s.Removes() && forbidden[s.Address] || s.Kind == plan.KindBuild && !providersListed() {
			continue
		}
		steps = append(steps, *s)
	}
	return steps
}

// providersListed reports whether every provider was listed, with the format of its images, or failed to respond, or
// firstListingTimeout has passed.
func (d *Daemon) providersListed(desired resources.Desired, now time.Time) bool {
	frozen := frozenProviders(d.runner)
	for i := range desired.Providers {
		name := desired.Providers[i].Name
		if view, _ := d.observer.Listing(name); view.ListedAt.IsZero() && view.Err == "" && !frozen[name] && d.duties.manages(name) {
			return now.Sub(d.began) > firstListingTimeout
		}
	}
	return true
}

// decide computes the plan of a pass.
func (d *Daemon) decide(desired resources.Desired, seen plan.Observed) plan.Plan {
	if d.shadow == nil {
		return plan.Compute(desired, seen, d.config.options())
	}
	d.shadow.track(seen.Records.Requests)
	p := plan.Compute(desired, d.ShadowObserved(desired, seen), plan.Options{HonorBackoff: true, Explain: true})
	if d.providersListed(desired, seen.Now) {
		d.shadow.note(p) // requests that are answered before are unknown
	}
	return p
}

// stallAfter is the default of Options.Stall.
const stallAfter = 15 * time.Minute

// stall detects that requests wait while nothing is launched or served. Each cause may be legitimate, such as a cloud
// that is full, but an operator must know of it.
type stall struct {
	after   time.Duration // see Options.Stall
	log     *slog.Logger
	journal *Journal

	mu       sync.Mutex    // guards the fields below
	progress time.Time     // when a launch or serve step last completed
	duration time.Duration // how long the stall has lasted; 0 without a stall
	loggedAt time.Time     // when the stall was last logged
}

// note records the completion of a launch or serve step as progress.
func (s *stall) note(event reconcile.Event) {
	helps := event.Step.Kind == plan.KindLaunch || event.Step.Kind == plan.KindServe
	if event.Kind != reconcile.EventDone || !helps {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress = event.Time
}

// update determines whether requests stall, and whether to log that the stall begins or continues (then lasts is its
// duration) or ends (over).
func (s *stall) update(requests []*resources.Request, now time.Time) (oldest *resources.Request, lasts time.Duration, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range requests {
		if r.IsOpen() && (oldest == nil || r.Created.Before(oldest.Created)) {
			oldest = r
		}
	}
	before := s.duration
	s.duration = 0
	if oldest != nil {
		since := oldest.Created
		if s.progress.After(since) {
			since = s.progress
		}
		if waited := now.Sub(since); waited >= s.after {
			s.duration = waited
		}
	}
	if s.duration > 0 && now.Sub(s.loggedAt) >= s.after {
		lasts, s.loggedAt = s.duration, now
	}
	over = before > 0 && s.duration == 0
	if over {
		s.loggedAt = time.Time{}
	}
	return oldest, lasts, over
}

// Stalled returns how long requests have waited while nothing was launched or served; 0 when that is less than
// Options.Stall.
func (d *Daemon) Stalled() time.Duration {
	d.stall.mu.Lock()
	defer d.stall.mu.Unlock()
	return d.stall.duration
}

// check logs a stall of the given requests when it begins, every Options.Stall while it lasts, and when it ends.
func (s *stall) check(pass Pass, requests []*resources.Request) {
	oldest, lasts, over := s.update(requests, pass.Observed.Now)
	switch {
	case lasts > 0:
		why := whyWaiting(pass, oldest)
		lasts = lasts.Round(time.Second)
		s.log.Error("requests wait and nothing is launched or served", "for", lasts, "oldest_request", oldest.ID, "labels", oldest.Labels, "why", why)
		s.journal.add(resources.Event{Time: pass.Observed.Now, Subject: oldest.Key().String(), EventID: oldest.EventID, Related: labelSubjects(oldest.Labels), Code: "stalled",
			Text: fmt.Sprintf("no step has launched or served anything for %s while this request waits: %s", lasts, why)})
	case over:
		s.log.Info("requests are served again")
	}
}

// whyWaiting returns the reason why a request waits.
func whyWaiting(pass Pass, r *resources.Request) string {
	explained := plan.Compute(pass.Desired, pass.Observed, plan.Options{HonorBackoff: true, Explain: true})
	for _, note := range explained.Notes {
		if note.Address == plan.Address("request."+r.ID) {
			return note.Text
		}
	}
	if r.State == resources.StatePending {
		return fmt.Sprintf("its nodes are launching in pool %s of provider %s", r.Placement.Pool, r.Placement.Provider)
	}
	return "the reason is unknown; npctl why has details"
}
