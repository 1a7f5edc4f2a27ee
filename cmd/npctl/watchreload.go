package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/hcl/v2"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
	"github.com/npctl/npctl/watch/metrics"
)

// errMistakes stands for the mistakes of a configuration, each of which is in the log already.
var errMistakes = errors.New("it has the mistakes above")

// reread reads the configuration for a daemon that runs.
func (c *watchCommand) reread(context.Context) (resources.Desired, error) {
	config, err := c.load(c.variableOptions)
	if err != nil {
		return resources.Desired{}, err
	}
	if config.warnings != nil {
		c.logDiagnostics(config.warnings)
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

// reloadOnHangup reads the configuration anew at each SIGHUP. Those that come meanwhile are one more.
func (w *watching) reloadOnHangup(ctx context.Context) {
	for {
		select {
		case <-w.reloads:
			w.reload(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// reload tells systemd; whoever sent the signal hears nothing else.
func (w *watching) reload(ctx context.Context) {
	tell := newNotifier(w.log)
	tell.reloading()
	defer tell.ready()
	_, _ = w.daemon.Reload(ctx, false) // reloaded tells
}

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

func (c *watchCommand) logRefusal(err error) {
	next := nextStep(err)
	switch held, heldBack := errors.AsType[*watch.HeldBackError](err); {
	case heldBack:
		for _, s := range held.Deletes {
			c.log.Warn("the new configuration would delete", "address", s.Address, "reason", s.Reason.Text())
		}
		next = "npctl reload -allow-destroy, if that is meant"
	default:
		if diags, ok := errors.AsType[*diagnosed](err); ok {
			c.logDiagnostics(diags)
			err, next = errMistakes, "npctl validate shows each with its line"
		}
	}
	c.log.Error("the new configuration was not taken, the old one goes on", "error", err, "hint", next)
}

// logDiagnostics writes the mistakes of a configuration to the log.
func (c *watchCommand) logDiagnostics(d *diagnosed) {
	for _, one := range d.diags {
		log := c.log.Error
		if one.Severity == hcl.DiagWarning {
			log = c.log.Warn
		}
		place := ""
		if one.Subject != nil {
			place = fmt.Sprintf("%s:%d:%d", one.Subject.Filename, one.Subject.Start.Line, one.Subject.Start.Column)
		}
		log("configuration: "+one.Summary, "at", place, "detail", one.Detail)
	}
}
