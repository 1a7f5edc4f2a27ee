package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/hcl/v2"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
)

// reread reads the configuration for a daemon that runs.
func (c *watchCommand) reread(context.Context) (resources.Desired, error) {
	config, err := c.load(c.variableOptions)
	if err != nil {
		return resources.Desired{}, err
	}
	if config.warnings != nil {
		c.logDiagnostics(config.warnings)
	}
	path, err := c.app.statePath(config.Desired.Settings)
	if err != nil {
		return resources.Desired{}, err
	}
	if path != c.statePath {
		return resources.Desired{}, hint(fmt.Errorf("the state cannot move from %s to %s while npctl watch runs", c.statePath, path),
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
	w.ui.onHangUp(func() {
		select {
		case w.reloads <- struct{}{}:
		default:
		}
	})
	defer w.ui.onHangUp(nil)
	for {
		select {
		case <-w.reloads:
			w.reload(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// reload tells in the log what became of it: whoever sent the signal hears nothing.
func (w *watching) reload(ctx context.Context) {
	tell := newNotifier(w.log)
	tell.reloading()
	defer tell.ready()
	p, err := w.daemon.Reload(ctx, false)
	w.metrics.Reload(reloadResult(err))
	switch {
	case err == nil:
		w.log.Info("configuration reloaded", "plan", p.Summary().String())
	default:
		w.logRefusal(err)
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

func (w *watching) logRefusal(err error) {
	next := nextStep(err)
	switch held, heldBack := errors.AsType[*watch.HeldBackError](err); {
	case heldBack:
		for _, s := range held.Deletes {
			w.log.Warn("the new configuration would delete", "address", s.Address, "reason", s.Reason.Text())
		}
		next = "npctl reload -allow-destroy, if that is meant"
	default:
		if diags, ok := errors.AsType[*diagnosed](err); ok {
			w.logDiagnostics(diags)
			err = fmt.Errorf("it has %d mistakes", countErrors(diags.diags))
		}
	}
	w.log.Error("the new configuration was not taken, the old one goes on", "error", err, "hint", next)
}

func countErrors(diags hcl.Diagnostics) (n int) {
	for _, d := range diags {
		if d.Severity == hcl.DiagError {
			n++
		}
	}
	return n
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
