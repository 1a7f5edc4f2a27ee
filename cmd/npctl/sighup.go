package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/hashicorp/hcl/v2"

	"github.com/npctl/npctl/watch"
)

// errMistakes stands for the errors of a configuration that are in the log already.
var errMistakes = errors.New("it has the errors above")

// reloadOnHangup calls reload for each hint and notifies systemd, until ctx is done.
func reloadOnHangup(ctx context.Context, hints <-chan struct{}, log *slog.Logger, reload func(context.Context)) {
	tell := newNotifier(log)
	for {
		select {
		case <-hints:
			tell.reloading()
			reload(ctx)
			tell.ready()
		case <-ctx.Done():
			return
		}
	}
}

// reloadConfig reads the configuration for a running service and logs its warnings.
func (a *app) reloadConfig(v variableOptions) (*configuration, error) {
	c, err := a.load(v)
	if err == nil && c.warnings != nil {
		a.logDiagnostics(c.warnings)
	}
	return c, err
}

// logRefusal logs why a new configuration was rejected.
func (a *app) logRefusal(err error) {
	next := nextStep(err)
	switch held, heldBack := errors.AsType[*watch.ConsentRequiredError](err); {
	case heldBack:
		for _, s := range held.Deletes {
			a.log.Warn("the new configuration would delete", "address", s.Address, "reason", s.Reason.Text())
		}
		next = "npctl reload -allow-destroy permits that"
	default:
		if diags, ok := errors.AsType[*diagnosed](err); ok {
			a.logDiagnostics(diags)
			err, next = errMistakes, "npctl validate shows each with its line"
		}
	}
	a.log.Error("new configuration refused, keeping the previous one", "error", err, "hint", next)
}

// logDiagnostics logs the diagnostics of a configuration.
func (a *app) logDiagnostics(d *diagnosed) {
	for _, one := range d.diags {
		log := a.log.Error
		if one.Severity == hcl.DiagWarning {
			log = a.log.Warn
		}
		place := ""
		if one.Subject != nil {
			place = fmt.Sprintf("%s:%d:%d", one.Subject.Filename, one.Subject.Start.Line, one.Subject.Start.Column)
		}
		log("configuration: "+one.Summary, "at", place, "detail", one.Detail)
	}
}
