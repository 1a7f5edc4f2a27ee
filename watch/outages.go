package watch

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
)

// The daemon logs an outage of a provider once when it begins and once when it ends, whether a listing or a postponed
// launch revealed it.

// outageEndDelay is how long after the newest postponed launch an outage counts as over although no launch has
// succeeded since. The plan may no longer contain launches in the provider.
const outageEndDelay = 5 * time.Minute

// outages knows the providers that do not respond.
type outages struct {
	log           *slog.Logger
	now           func() time.Time
	lastPostponed func(provider string) time.Time // when a launch was last postponed

	mu          sync.Mutex      // guards unreachable
	unreachable map[string]bool // providers with an outage that was logged
}

// onLaunchResult updates the outage of a provider from the result of a launch. view is the newest listing.
func (o *outages) onLaunchResult(event reconcile.Event, view plan.ProviderView) {
	provider := event.Step.Provider
	switch {
	case errors.Is(event.Err, reconcile.ErrProviderUnreachable):
		if o.start(provider) {
			o.log.Warn("provider does not respond; launches are postponed", "provider", provider, "error", event.Err)
		}
	case event.Kind == reconcile.EventDone:
		o.end(provider, view)
	}
}

// onListing updates the outage of a provider from a listing.
func (o *outages) onListing(provider string, before, view plan.ProviderView) {
	if view.Err == "" {
		o.end(provider, view)
		return
	}
	if o.start(provider) || before.Rejected != view.Rejected {
		o.log.Warn("provider could not be queried", "provider", provider, "error", view.Err)
	}
}

// start records that a provider does not respond, and reports whether it responded before.
func (o *outages) start(provider string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	isNew := !o.unreachable[provider]
	o.unreachable[provider] = true
	return isNew
}

// end ends an outage when listings succeed and launches are no longer postponed.
func (o *outages) end(provider string, view plan.ProviderView) {
	calm := o.now().Sub(o.lastPostponed(provider)) >= outageEndDelay
	o.mu.Lock()
	over := o.unreachable[provider] && view.Err == "" && calm
	if over {
		delete(o.unreachable, provider)
	}
	o.mu.Unlock()
	if over {
		o.log.Info("provider responds again", "provider", provider)
	}
}

// forget drops a provider that this process no longer manages.
func (o *outages) forget(provider string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.unreachable, provider)
}
