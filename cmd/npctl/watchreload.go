package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/location"
	"github.com/npctl/npctl/state/zookeeper"
	"github.com/npctl/npctl/watch"
	"github.com/npctl/npctl/watch/metrics"
)

// loadConfiguration reads the configuration for a running daemon.
func (c *watchCommand) loadConfiguration(ctx context.Context) (resources.Desired, error) {
	config, err := c.reloadConfig(c.variableOptions)
	if err != nil {
		return resources.Desired{}, err
	}
	place, err := c.stateOf(config.Desired.Settings)
	if err != nil {
		return resources.Desired{}, err
	}
	if c.shadow && place.Shared != nil {
		place.Location = place.Shadow()
	}
	if err := c.checkPlace(ctx, place.Location); err != nil {
		return resources.Desired{}, err
	}
	if err := c.checkProviders(config.Desired); err != nil {
		return resources.Desired{}, err
	}
	limitSteps(config.Desired.Providers, c.parallelism)
	return config.Desired, nil
}

// checkPlace returns an error if a new configuration has another state, and prepares a changed connection to ZooKeeper.
func (c *watchCommand) checkPlace(ctx context.Context, place location.Location) error {
	changed := c.place.Changed(place)
	switch {
	case !place.SameState(c.place.Location) && len(changed) > 0:
		return hint(fmt.Errorf("%s of the state block cannot change while npctl watch runs: the state is in %s, the new configuration says %s", text.And(changed), c.place, place),
			"restart npctl watch if that is the same state under another address; otherwise stop npctl watch, move the state, and start it again")
	case !place.SameState(c.place.Location):
		return hint(fmt.Errorf("the state cannot move from %s to %s while npctl watch runs", c.place, place),
			"stop npctl watch, move the state, and start it again")
	}
	c.reconnect = nil
	use, err := reconnection(ctx, c.store, changed, place)
	if err == nil && len(changed) > 0 {
		c.reconnect = func() {
			if slices.Contains(changed, "session_timeout") {
				c.log.Warn("session_timeout applies when npctl watch is started again")
			}
			use()
			c.place.Location = place
		}
	}
	return err
}

// reconnection prepares the use of other servers or of other TLS files.
func reconnection(ctx context.Context, store state.Store, changed []string, place location.Location) (use func(), err error) {
	shared, ok := store.(interface {
		Reconnect(ctx context.Context, to zookeeper.Options) (use func(), err error)
	})
	if !ok || !slices.Contains(changed, "hosts") && !slices.Contains(changed, "tls") {
		return func() {}, nil
	}
	if use, err = shared.Reconnect(ctx, *place.Shared); err != nil {
		return nil, hint(err, "hosts and tls can change to other servers of the same ensemble while npctl runs; otherwise stop npctl, move the state, and start it again")
	}
	return use, nil
}

// reload discards the result, which reloaded logs.
func (w *service) reload(ctx context.Context, cause string) {
	_, _ = w.daemon.Reload(ctx, watch.ReloadOptions{Actor: cause})
}

// reloaded returns a function that logs and counts the result of a reload, for all sources of reloads.
func (c *watchCommand) reloaded(m *metrics.Metrics) func(plan.Plan, error) {
	return func(p plan.Plan, err error) {
		m.Reload(reloadResult(err))
		if err != nil {
			c.logRefusal(err)
			return
		}
		if c.reconnect != nil {
			c.reconnect()
		}
		c.log.Info("configuration reloaded", "plan", p.Summary().String())
	}
}

// reloadResult returns the value of the result label in metrics.
func reloadResult(err error) string {
	_, heldBack := errors.AsType[*watch.ConsentRequiredError](err)
	switch {
	case err == nil:
		return "done"
	case heldBack:
		return "consent_required"
	default:
		return "invalid"
	}
}
