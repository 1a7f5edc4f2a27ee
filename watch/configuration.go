package watch

import (
	"sync"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
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
	return plan.Options{HonorBackoff: true, AllowDestroy: allowFor(c.consented), RequireConsent: c.required != nil}
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

// allowFor returns which deletions a configuration may cause.
func allowFor(destroy bool) plan.Allow {
	if destroy {
		return plan.AllowAll
	}
	return ""
}
