package watch

import (
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
)

// ConfigState is what became of the newest configuration, and what the one in force does not do.
type ConfigState struct {
	Taken    time.Time   // when the configuration in force was read
	Refused  time.Time   // when a newer one was refused; zero when none was
	Error    string      // why it was
	HeldBack string      // why deletions that the configuration in force asks for are held back
	Deletes  []plan.Step // those deletions
	OldState string      // why nothing without a record is deleted
}

// Configuration returns the state of the configuration.
func (d *Daemon) Configuration() ConfigState {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.config
	s.Deletes, s.OldState = held(d.last.Plan), d.oldState
	if d.heldNow != nil {
		s.HeldBack = d.heldNow.Error()
	}
	return s
}

// Notes are what a probe shows though the daemon is ready. Probes need no token, so they have no particulars.
func (s ConfigState) Notes() []string {
	var notes []string
	if s.Error != "" {
		notes = append(notes, "the newest configuration was refused")
	}
	if s.HeldBack != "" {
		notes = append(notes, "deletions are held back")
	}
	if s.OldState != "" {
		notes = append(notes, "the state is older than the clouds")
	}
	return notes
}

// configSubject is what events about the configuration are about.
const configSubject = "configuration"

// readConfig records what became of a configuration that was read.
func (d *Daemon) readConfig(err error) {
	at := d.engine().Now()
	e := resources.Event{Time: at, Code: "config-taken", Subject: configSubject, Text: "the configuration was reloaded"}
	d.mu.Lock()
	if err == nil {
		d.config = ConfigState{Taken: at}
	} else {
		d.config.Refused, d.config.Error = at, err.Error()
		e.Code, e.Text = "config-refused", "the new configuration was not taken: "+err.Error()
	}
	d.mu.Unlock()
	d.Journal.add(e)
}

// allowed is what a configuration may delete.
func allowed(destroy bool) plan.Allow {
	if destroy {
		return plan.AllowAll
	}
	return ""
}

// options are what a pass plans with. Consent belongs to the configuration in force: a reload ends it.
func (d *Daemon) options() plan.Options {
	d.mu.Lock()
	defer d.mu.Unlock()
	return plan.Options{Patient: true, AllowDestroy: allowed(d.consented), Hold: d.holding != nil}
}

// holdBack remembers that removals wait for consent, so that they do not become few enough by and by. A plan that was made
// before every provider was listed decides nothing for later ones.
func (d *Daemon) holdBack(engine *reconcile.Engine, p plan.Plan) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current != engine || d.Shadow {
		return
	}
	before := d.holding
	d.heldNow = p.Consent
	if p.Consent != nil && len(p.Deferred) == 0 {
		d.holding = p.Consent
	}
	if d.holding != nil && before == nil {
		d.Log.Error("deletions are held back", "reason", d.holding.Error(), "steps", len(held(p)), "hint", "npctl reload -allow-destroy, if that is meant")
		d.Journal.add(resources.Event{Time: engine.Now(), Code: "deletions-held-back", Subject: configSubject, Text: d.holding.Error()})
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
