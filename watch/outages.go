package watch

import (
	"errors"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
)

// The daemon logs an outage of a provider once when it begins and once when it ends, whether a listing or a postponed
// launch revealed it.

// outageEndDelay is how long after the newest postponed launch an outage counts as over although no launch has
// succeeded since. The plan may no longer contain launches in the provider.
const outageEndDelay = 5 * time.Minute

// markUnreachable records that a provider does not respond, and reports whether it responded before.
func (d *Daemon) markUnreachable(provider string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	news := !d.unreachable[provider]
	d.unreachable[provider] = true
	return news
}

// onLaunchResult updates the outage of a provider from the result of a launch.
func (d *Daemon) onLaunchResult(event reconcile.Event) {
	provider := event.Step.Provider
	switch {
	case errors.Is(event.Err, reconcile.ErrProviderUnreachable):
		if d.markUnreachable(provider) {
			d.Log.Warn("provider does not respond; launches are postponed", "provider", provider, "error", event.Err)
		}
	case event.Kind == reconcile.EventDone:
		d.mu.Lock()
		view := d.views[provider]
		d.mu.Unlock()
		d.markReachable(provider, &view)
	}
}

// onListing updates the outage of a provider from a listing.
func (d *Daemon) onListing(provider string, before, view *plan.ProviderView) {
	if view.Err == "" {
		d.markReachable(provider, view)
		return
	}
	if d.markUnreachable(provider) || before.Rejected != view.Rejected {
		d.Log.Warn("provider could not be queried", "provider", provider, "error", view.Err)
	}
}

// markReachable ends an outage when listings succeed and launches are no longer postponed.
func (d *Daemon) markReachable(provider string, view *plan.ProviderView) {
	calm := d.Engine.Now().Sub(d.runner.LastPostponed(provider)) >= outageEndDelay
	d.mu.Lock()
	over := d.unreachable[provider] && view.Err == "" && calm
	if over {
		delete(d.unreachable, provider)
	}
	d.mu.Unlock()
	if over {
		d.Log.Info("provider responds again", "provider", provider)
	}
}
