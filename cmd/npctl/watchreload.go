package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
	"github.com/npctl/npctl/watch/metrics"
)

// reread reads the configuration for a daemon that runs.
func (c *watchCommand) reread(context.Context) (resources.Desired, error) {
	config, err := c.reloadConfig(c.variableOptions)
	if err != nil {
		return resources.Desired{}, err
	}
	place, err := c.statePlace(config.Desired.Settings)
	if err != nil {
		return resources.Desired{}, err
	}
	if c.shadow && place.shared != nil {
		place = place.aside()
	}
	if !place.same(c.place) {
		return resources.Desired{}, hint(fmt.Errorf("the state cannot move from %s to %s while npctl watch runs", c.place, place),
			"stop npctl watch, move the state, and start it again")
	}
	if err := c.checkProviders(config.Desired); err != nil {
		return resources.Desired{}, err
	}
	limitSteps(config.Desired.Providers, c.parallelism)
	return config.Desired, nil
}

// reload returns nothing: reloaded logs the result.
func (w *watching) reload(ctx context.Context) { _, _ = w.daemon.Reload(ctx, false) }

// reloaded tells the log and the metrics what became of a reload, whoever asked for it.
func (c *watchCommand) reloaded(m *metrics.Metrics) func(plan.Plan, error) {
	return func(p plan.Plan, err error) {
		m.Reload(reloadResult(err))
		if err != nil {
			c.logRefusal(err)
			return
		}
		c.log.Info("configuration reloaded", "plan", p.Summary().String())
	}
}

// reloadResult is what metrics call the end of a reload.
func reloadResult(err error) string {
	_, heldBack := errors.AsType[*watch.HeldBackError](err)
	switch {
	case err == nil:
		return "done"
	case heldBack:
		return "held_back"
	default:
		return "refused"
	}
}
