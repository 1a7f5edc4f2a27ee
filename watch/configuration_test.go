package watch

import (
	"errors"
	"testing"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
)

func TestConsentIsRequiredUntilTheNextReload(t *testing.T) {
	engine := &reconcile.Engine{Options: reconcile.Options{Now: time.Now}}
	next := &reconcile.Engine{Options: reconcile.Options{Now: time.Now}}
	current := engine
	c := newConfiguration(func() *reconcile.Engine { return current }, false)
	large, small := plan.Plan{Consent: &plan.Consent{Things: 20}}, plan.Plan{}
	partial := plan.Plan{Consent: large.Consent, Deferred: []string{"one"}}
	required := func() bool { return c.options().RequireConsent }
	if consent, _ := c.notePlan(engine, partial); consent != nil || required() || c.describe(partial).ConsentRequired == "" {
		t.Error("a plan with a deferred provider affects later plans, or is not described")
	}
	if consent, _ := c.notePlan(engine, large); consent == nil || !required() {
		t.Error("consent is not required")
	}
	if consent, _ := c.notePlan(engine, large); consent != nil {
		t.Error("the consent is reported twice")
	}
	if c.notePlan(engine, small); !required() {
		t.Error("consent is not required after the number has fallen")
	}
	c.replace(func() { current = next }, true)
	if options := c.options(); options.RequireConsent || options.AllowDestroy != plan.AllowAll {
		t.Errorf("after a reload with consent the options are %+v", options)
	}
	if consent, _ := c.notePlan(engine, large); consent != nil || required() {
		t.Error("a plan of the old configuration requires consent for the new one")
	}
}

func TestOutdatedStateIsReportedOnce(t *testing.T) {
	engine := &reconcile.Engine{Options: reconcile.Options{Now: time.Now}}
	c := newConfiguration(func() *reconcile.Engine { return engine }, false)
	p := plan.Plan{Notes: []plan.Note{{Code: plan.NoteOldState, Text: "restored"}}}
	for i, want := range []string{"restored", ""} {
		if _, outdated := c.notePlan(engine, p); outdated != want || c.describe(p).StateOutdated != "restored" {
			t.Errorf("%d: outdated is %q, want %q", i, outdated, want)
		}
	}
}

func TestRejectedReloadKeepsTheTimeOfTheConfiguration(t *testing.T) {
	engine := &reconcile.Engine{Options: reconcile.Options{Now: time.Now}}
	c := newConfiguration(func() *reconcile.Engine { return engine }, false)
	loaded, at := c.describe(plan.Plan{}).LoadedAt, time.Unix(1e9, 0)
	c.noteReload(at, errors.New("no such file"))
	if s := c.describe(plan.Plan{}); s.LoadedAt != loaded || s.RejectedAt != at || s.Error != "no such file" {
		t.Errorf("the state is %+v", s)
	}
	if c.noteReload(at, nil); c.describe(plan.Plan{}).Error != "" || c.describe(plan.Plan{}).LoadedAt != at {
		t.Errorf("after a reload the state is %+v", c.describe(plan.Plan{}))
	}
}
