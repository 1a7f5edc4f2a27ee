package watch

import (
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
)

// ConfigState describes the configuration in force, a newer rejected one, and pending deletions.
type ConfigState struct {
	LoadedAt         time.Time   // when the configuration in force was read
	RejectedAt       time.Time   // when a newer configuration was rejected; zero if none was
	Error            string      // why it was rejected
	ConsentRequired  string      // why deletions of the configuration in force need consent
	PendingDeletions []plan.Step // the deletions that need consent
	StateOutdated    string      // why objects without a record are not deleted
}

// Configuration returns the state of the configuration.
func (d *Daemon) Configuration() ConfigState {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.config
	s.PendingDeletions, s.StateOutdated = stepsNeedingConsent(d.last.Plan), d.oldState
	if d.consentRequiredNow != nil {
		s.ConsentRequired = d.consentRequiredNow.Error()
	}
	return s
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

// configSubject is the subject of events about the configuration.
const configSubject = "configuration"

// readConfig records the result of a reload.
func (d *Daemon) readConfig(err error) {
	at := d.engine().Now()
	e := resources.Event{Time: at, Code: "config-loaded", Subject: configSubject, Text: "the configuration was reloaded"}
	d.mu.Lock()
	if err == nil {
		d.config = ConfigState{LoadedAt: at}
	} else {
		d.config.RejectedAt, d.config.Error = at, err.Error()
		e.Code, e.Text = "config-refused", "the new configuration was rejected: "+err.Error()
	}
	d.mu.Unlock()
	d.Journal.add(e)
}

// allowFor returns which deletions a configuration may cause.
func allowFor(destroy bool) plan.Allow {
	if destroy {
		return plan.AllowAll
	}
	return ""
}

// options returns the plan options of a pass. Consent applies to the configuration in force; a reload ends it.
func (d *Daemon) options() plan.Options {
	d.mu.Lock()
	defer d.mu.Unlock()
	return plan.Options{HonorBackoff: true, AllowDestroy: allowFor(d.consented), RequireConsent: d.consentRequired != nil}
}

// requireConsent remembers that deletions require consent, so that they stay pending when their number falls below the
// limit. A plan with deferred providers does not affect later plans.
func (d *Daemon) requireConsent(engine *reconcile.Engine, p plan.Plan) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current != engine || d.Shadow {
		return
	}
	before := d.consentRequired
	d.consentRequiredNow = p.Consent
	if p.Consent != nil && len(p.Deferred) == 0 {
		d.consentRequired = p.Consent
	}
	if d.consentRequired != nil && before == nil {
		d.Log.Error("deletions need consent", "reason", d.consentRequired.Error(), "steps", len(stepsNeedingConsent(p)), "hint", "if they are intended, run npctl reload -allow-destroy")
		d.Journal.add(resources.Event{Time: engine.Now(), Code: "consent-required", Subject: configSubject, Text: d.consentRequired.Error()})
	}
	old := noteOf(p, plan.NoteOldState)
	if old != "" && d.oldState == "" {
		d.Log.Error("the state is older than the clouds", "reason", old, "hint", "docs/operations.md, backup and restore")
		d.Journal.add(resources.Event{Time: engine.Now(), Code: plan.NoteOldState, Subject: configSubject, Text: old})
	}
	d.oldState = old
}

func noteOf(p plan.Plan, code string) string {
	for _, n := range p.Notes {
		if n.Code == code {
			return n.Text
		}
	}
	return ""
}
