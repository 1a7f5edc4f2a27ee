package watch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state/audit"
)

// configuration holds the state of the configuration in force and the consent to its deletions.
type configuration struct {
	current func() *reconcile.Engine // returns the engine with the configuration in force

	mu sync.Mutex // guards the fields below; held while the engine is replaced
	// consented reports whether the operator has consented to the deletions of the configuration. A plan without
	// deferred providers that requires consent sets required, which stays set until the next reload. requiredNow is the
	// consent that the newest pass requires.
	consented             bool
	required, requiredNow *plan.Consent
	state                 ConfigState // without the fields that depend on the newest plan
	outdated              string      // why the newest pass deletes nothing without a record; empty otherwise
}

func newConfiguration(current func() *reconcile.Engine, consented bool) *configuration {
	return &configuration{current: current, consented: consented, state: ConfigState{LoadedAt: current().Now()}}
}

// replace puts a new configuration in force, which use does.
func (c *configuration) replace(use func(), consented bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	use()
	c.consented, c.required = consented, nil
}

// noteReload records the result of a reload.
func (c *configuration) noteReload(at time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.state = ConfigState{LoadedAt: at}
		return
	}
	c.state.RejectedAt, c.state.Error = at, err.Error()
}

// describe returns the state of the configuration. newest is the newest plan.
func (c *configuration) describe(newest plan.Plan) ConfigState {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.state
	s.PendingDeletions, s.StateOutdated = stepsNeedingConsent(newest), c.outdated
	if c.requiredNow != nil {
		s.ConsentRequired = c.requiredNow.Error()
	}
	return s
}

// options returns the plan options of a pass. Consent applies to the configuration in force; a reload ends it.
func (c *configuration) options() plan.Options {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := plan.Options{HonorBackoff: true, RequireConsent: c.required != nil}
	if c.consented {
		o.AllowDestroy = plan.AllowAll
	}
	return o
}

// notePlan remembers that deletions require consent, so that they stay pending when their number falls below the limit.
// A plan with deferred providers does not affect later plans, and the plan of a replaced engine has no effect. notePlan
// returns the consent if no earlier plan required it, and the reason why the state is outdated if it was not before.
func (c *configuration) notePlan(engine *reconcile.Engine, p plan.Plan) (consent *plan.Consent, outdated string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current() != engine {
		return nil, ""
	}
	c.requiredNow = p.Consent
	if p.Consent != nil && len(p.Deferred) == 0 {
		if c.required == nil {
			consent = p.Consent
		}
		c.required = p.Consent
	}
	old := ""
	for _, n := range p.Notes {
		if n.Code == plan.NoteOldState {
			old = n.Text
		}
	}
	if c.outdated == "" {
		outdated = old
	}
	c.outdated = old
	return consent, outdated
}

// ConfigState describes the configuration in force, a newer rejected one, and pending deletions.
type ConfigState struct {
	LoadedAt         time.Time   // when the configuration in force was read
	RejectedAt       time.Time   // when a newer configuration was rejected; zero if none was
	Error            string      // why it was rejected
	ConsentRequired  string      // why deletions of the configuration in force need consent
	PendingDeletions []plan.Step // the deletions that need consent
	StateOutdated    string      // why objects without a record are not deleted
}

// Notes returns what a health check reports although the daemon is ready. Health checks need no token, so the notes
// contain no details.
func (s ConfigState) Notes() []string {
	var notes []string
	if s.Error != "" {
		notes = append(notes, "the newest configuration was rejected")
	}
	if s.ConsentRequired != "" {
		notes = append(notes, "deletions need consent")
	}
	if s.StateOutdated != "" {
		notes = append(notes, "the state is older than the clouds")
	}
	return notes
}

// Configuration returns the state of the configuration.
func (d *Daemon) Configuration() ConfigState { return d.config.describe(d.Last().Plan) }

// configSubject is the subject of events about the configuration.
const configSubject = "configuration"

// ConsentRequiredError reports that a reload was refused because the new configuration would delete a large part of the
// fleet.
type ConsentRequiredError struct {
	Consent *plan.Consent
	Deletes []plan.Step
}

func (e *ConsentRequiredError) Error() string { return "new configuration: " + e.Consent.Error() }

// ReloadOptions are the options of a reload.
type ReloadOptions struct {
	AllowDestroy bool // consents to deletions
	// For the audit record: who reloads, the digest of the reviewed effect or "", and the accepted failures of checks.
	Actor, Reviewed string
	Overrides       []string
	// From and To are the digests of the configuration in force and of the new one; "" permits any. With another configuration,
	// Reload changes nothing.
	From, To resources.Hash
}

// Reload reads the configuration and puts it in force. It refuses a configuration with errors as a whole and, unless
// o.AllowDestroy is set, a configuration with deletions that require consent; the old configuration then stays in force.
// Reload returns the plan of the new configuration.
func (d *Daemon) Reload(ctx context.Context, o ReloadOptions) (plan.Plan, error) {
	d.reloading.Lock() // the configuration that was read last must win
	defer d.reloading.Unlock()
	if o.From != "" && !d.Desired().Digests.Same(o.From) {
		return plan.Plan{}, fmt.Errorf("%w: the configuration in force is not the one before the change", ErrState)
	}
	operation, err := audit.Begin(ctx, d.runner.Commit, resources.Audit{Time: d.observer.Engine().Now(), Operation: "reload", Actor: o.Actor, Reviewed: o.Reviewed, Overrides: o.Overrides})
	if err != nil {
		return plan.Plan{}, err
	}
	p, err := d.reload(ctx, o)
	d.noteReload(err)
	d.endAudit(ctx, operation, p, err)
	if d.Reloaded != nil {
		d.Reloaded(p, err)
	}
	return p, err
}

// noteReload records the result of a reload in the configuration's state and in the journal.
func (d *Daemon) noteReload(err error) {
	e := resources.Event{Time: d.observer.Engine().Now(), Code: "config-loaded", Subject: configSubject, Text: "the configuration was reloaded"}
	if err != nil {
		e.Code, e.Text = "config-refused", "the new configuration was rejected: "+err.Error()
	}
	d.config.noteReload(e.Time, err)
	d.Journal.add(e)
}

// endAudit adds the result of a reload to its audit record.
func (d *Daemon) endAudit(ctx context.Context, operation *audit.Operation, p plan.Plan, err error) {
	result := resources.AuditFailed
	if err == nil {
		result = resources.AuditDone
		operation.Plan(d.Desired().Digests.Current(), p.Digest(), p.Summary().String())
	}
	if err := operation.End(ctx, d.observer.Engine().Now(), result, err); err != nil {
		d.Log.Warn("the audit record has no result", "error", err)
	}
}

func (d *Daemon) reload(ctx context.Context, o ReloadOptions) (plan.Plan, error) {
	if d.Load == nil {
		return plan.Plan{}, errors.New("this daemon cannot reload its configuration")
	}
	desired, err := d.Load(ctx)
	if err != nil {
		return plan.Plan{}, err
	}
	old := d.observer.Engine()
	next := old.With(desired)
	if o.To != "" && !next.Desired.Digests.Same(o.To) {
		return plan.Plan{}, fmt.Errorf("%w: the files of the daemon have another configuration than the expected one", ErrState)
	}
	seen, err := d.observer.Preview(ctx, next, d.changedProviders(old.Desired, next.Desired))
	if err != nil {
		return plan.Plan{}, err
	}
	options := plan.Options{HonorBackoff: true}
	if o.AllowDestroy {
		options.AllowDestroy = plan.AllowAll
	}
	p := plan.Compute(next.Desired, seen, options)
	for _, problem := range p.Problems {
		return p, fmt.Errorf("%s: %s", problem.Address, problem.Text)
	}
	if p.Consent != nil && !d.Shadow {
		return p, &ConsentRequiredError{Consent: p.Consent, Deletes: stepsNeedingConsent(p)}
	}
	d.config.replace(func() { d.observer.Use(next, seen) }, o.AllowDestroy)
	d.reloaded()
	return p, nil
}

// changedProviders returns the providers in which the new configuration creates nodes differently. A reload lists them, so
// that its plan reports names that they do not know before the configuration is in force.
func (d *Daemon) changedProviders(old, next resources.Desired) (names []string) {
	for i := range next.Providers {
		if p := &next.Providers[i]; d.duties.hasProvider(p.Name) && makesOtherwise(old, p) {
			names = append(names, p.Name)
		}
	}
	return names
}

// makesOtherwise reports whether the provider is new, is configured differently, or has a new or changed offer.
func makesOtherwise(old resources.Desired, p *resources.Provider) bool {
	before, ok := old.Provider(p.Name)
	if !ok || !before.Config.RawEquals(p.Config) {
		return true
	}
	for j := range p.Pools {
		for k := range p.Pools[j].Offers {
			if !hadOffer(before, p.Pools[j].Name, &p.Pools[j].Offers[k]) {
				return true
			}
		}
	}
	return false
}

func hadOffer(p *resources.Provider, pool string, o *resources.Offer) bool {
	where := p.Pool(pool)
	if where == nil {
		return false
	}
	before := where.Offer(o.Label)
	return before != nil && before.Image == o.Image && before.Config.RawEquals(o.Config)
}

// stepsNeedingConsent returns the steps that need consent.
func stepsNeedingConsent(p plan.Plan) []plan.Step {
	var steps []plan.Step
	for _, s := range p.Steps {
		if s.NeedsConsent {
			steps = append(steps, s)
		}
	}
	return steps
}

// reloaded starts the pollers of new providers and triggers all listings and a pass.
func (d *Daemon) reloaded() {
	d.pollers.update()
	d.pollers.triggerAll()
}
