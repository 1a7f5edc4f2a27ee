package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/config"
	"github.com/npctl/npctl/watch"
)

// errMistakes stands for the errors of a configuration that are in the log already.
var errMistakes = errors.New("it has the errors above")

// inputsInterval is the time between two checks of the files of the configuration.
const inputsInterval = time.Second

// reloader reloads the configuration of a running service on SIGHUP and, unless inputs is nil, when its files change.
type reloader struct {
	hints  <-chan struct{} // for SIGHUP
	inputs *config.Inputs
	log    *slog.Logger
	reload func(ctx context.Context, cause string)
	before string // the changes at the previous check
}

// run reloads and notifies systemd, until ctx is done.
func (r *reloader) run(ctx context.Context) {
	var checks <-chan time.Time
	if r.inputs != nil {
		ticker := time.NewTicker(inputsInterval)
		defer ticker.Stop()
		checks = ticker.C
	}
	tell := newNotifier(r.log)
	for {
		cause := "changed files"
		select {
		case <-r.hints:
			cause = "SIGHUP"
		case <-checks:
			if !r.changed() {
				continue
			}
		case <-ctx.Done():
			return
		}
		tell.reloading()
		r.reload(ctx, cause)
		tell.ready()
	}
}

// changed reports whether files have changed since the newest load, and have not changed further since the previous check:
// several files are often written one after the other.
func (r *reloader) changed() bool {
	names, now := r.inputs.Changes()
	settled := now != "" && now == r.before
	r.before = now
	if settled {
		r.log.Info("files of the configuration have changed: reloading", "files", names)
	}
	return settled
}

// reloadOnChangeFlag lets a service reload its configuration when files change.
func (a *app) reloadOnChangeFlag(category string) cli.Flag {
	return &cli.BoolFlag{Name: "reload-on-change", Category: category, Usage: "reload the configuration also when one of its files changes, as on SIGHUP",
		Action: func(_ context.Context, _ *cli.Command, on bool) error {
			if on {
				a.inputs = &config.Inputs{}
			}
			return nil
		}}
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
