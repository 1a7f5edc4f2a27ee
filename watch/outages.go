package watch

import (
	"errors"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
)

// An outage of a provider is told of once when it begins and once when it is over, whether looks have met it or launches,
// which are put off.

// calmAfter is how long after the newest launch that was put off an outage is taken to be over though none was answered since:
// it may be that nothing is to be launched there any more.
const calmAfter = 5 * time.Minute

// goesAway notes that a provider does not answer, and reports whether that is news.
func (d *Daemon) goesAway(provider string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	news := !d.away[provider]
	d.away[provider] = true
	return news
}

// launched takes in what became of a launch.
func (d *Daemon) launched(event reconcile.Event) {
	provider := event.Step.Provider
	switch {
	case errors.Is(event.Err, reconcile.ErrAway):
		if d.goesAway(provider) {
			d.Log.Warn("provider does not answer, so launches are put off", "provider", provider, "error", event.Err)
		}
	case event.Kind == reconcile.EventDone:
		d.mu.Lock()
		view := d.views[provider]
		d.mu.Unlock()
		d.comesBack(provider, &view)
	}
}

// lookedAt takes in what a look at a provider has shown.
func (d *Daemon) lookedAt(provider string, before, view *plan.ProviderView) {
	if view.Err == "" {
		d.comesBack(provider, view)
		return
	}
	if d.goesAway(provider) || before.Rejected != view.Rejected {
		d.Log.Warn("provider could not be queried", "provider", provider, "error", view.Err)
	}
}

// comesBack ends an outage when looks and launches are both answered.
func (d *Daemon) comesBack(provider string, view *plan.ProviderView) {
	calm := d.Engine.Now().Sub(d.runner.PutOff(provider)) >= calmAfter
	d.mu.Lock()
	over := d.away[provider] && view.Err == "" && calm
	if over {
		delete(d.away, provider)
	}
	d.mu.Unlock()
	if over {
		d.Log.Info("provider answers again", "provider", provider)
	}
}
