package watch

import (
	"slices"
	"sync"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
)

// configuration holds the configuration in force, its inputs, and the consent to its deletions.
type configuration struct {
	mu     sync.Mutex // guards the fields below
	engine *reconcile.Engine
	inputs plan.Observed // inputs of the engine that are neither in clouds nor in the store
	// consented reports whether the operator has consented to the deletions of the configuration. A plan without
	// deferred providers that requires consent sets required, which stays set until the next reload. requiredNow is the
	// consent that the newest pass requires.
	consented             bool
	required, requiredNow *plan.Consent
	state                 ConfigState // without the fields that depend on the newest plan
	outdated              string      // why the newest pass deletes nothing without a record; empty otherwise
}

func newConfiguration(engine *reconcile.Engine, consented bool) *configuration {
	return &configuration{engine: engine, consented: consented, state: ConfigState{LoadedAt: engine.Now()}}
}

// current returns the engine with the configuration in force.
func (c *configuration) current() *reconcile.Engine {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.engine
}

// observed returns the engine with the configuration in force, and its inputs.
func (c *configuration) observed() (*reconcile.Engine, plan.Observed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.engine, c.inputs
}

// setInputs stores the inputs of an engine, unless a reload has replaced it.
func (c *configuration) setInputs(engine *reconcile.Engine, inputs plan.Observed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.engine == engine {
		c.inputs = inputs
	}
}

// replace puts a new configuration in force.
func (c *configuration) replace(next *reconcile.Engine, inputs plan.Observed, consented bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.engine, c.inputs = next, inputs
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

// hasProvider reports whether a provider is configured.
func (c *configuration) hasProvider(name string) bool {
	return slices.ContainsFunc(c.current().Desired.Providers, func(p resources.Provider) bool { return p.Name == name })
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
	return plan.Options{HonorBackoff: true, AllowDestroy: allowFor(c.consented), RequireConsent: c.required != nil}
}

// notePlan remembers that deletions require consent, so that they stay pending when their number falls below the limit.
// A plan with deferred providers does not affect later plans, and the plan of a replaced engine has no effect. notePlan
// returns the consent if no earlier plan required it, and the reason why the state is outdated if it was not before.
func (c *configuration) notePlan(engine *reconcile.Engine, p plan.Plan) (consent *plan.Consent, outdated string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.engine != engine {
		return nil, ""
	}
	c.requiredNow = p.Consent
	if p.Consent != nil && len(p.Deferred) == 0 {
		if c.required == nil {
			consent = p.Consent
		}
		c.required = p.Consent
	}
	old := noteOf(p, plan.NoteOldState)
	if c.outdated == "" {
		outdated = old
	}
	c.outdated = old
	return consent, outdated
}
