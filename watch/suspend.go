package watch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/npctl/npctl/plan"
)

// ErrSuspended: the daemon is already suspended.
var ErrSuspended = errors.New("the daemon is already suspended")

// BusyError reports that the daemon was not suspended because steps did not end in time.
type BusyError struct {
	Steps []plan.Step
}

func (e *BusyError) Error() string {
	text := "steps are still running:"
	for i, s := range e.Steps[:min(len(e.Steps), 5)] {
		if i > 0 {
			text += ","
		}
		text += " " + string(s.Action) + " " + string(s.Address)
	}
	if len(e.Steps) > 5 {
		text += ", ..."
	}
	return text
}

// suspension prevents the daemon from starting steps while a client runs some.
type suspension struct {
	startMu   sync.Mutex // held while steps start and while suspended changes
	suspended bool       // guarded by startMu
}

// suspendPoll is the interval at which Suspend checks whether the running steps have ended.
const suspendPoll = 20 * time.Millisecond

// Suspend stops the daemon from starting steps, and from writing anything but its journal on its own, until release is
// called, so that a client can apply a plan through its store. It returns when the running steps have ended. When ctx
// is done earlier, Suspend returns a BusyError and the daemon resumes. A suspended daemon still lists providers, and
// serves clients as far as that needs no step.
func (d *Daemon) Suspend(ctx context.Context) (release func(), err error) {
	d.suspension.startMu.Lock()
	already := d.suspension.suspended
	d.suspension.suspended = true
	d.suspension.startMu.Unlock()
	if already {
		return nil, ErrSuspended
	}
	look := time.NewTicker(suspendPoll)
	defer look.Stop()
	for steps := d.runner.Running(); len(steps) > 0; steps = d.runner.Running() {
		select {
		case <-look.C:
		case <-ctx.Done():
			d.resume()
			return nil, &BusyError{Steps: steps}
		}
	}
	return sync.OnceFunc(d.resume), nil
}

// resume lets the daemon start steps again and triggers all listings, because the existing ones do not show the
// client's changes.
func (d *Daemon) resume() {
	d.suspension.startMu.Lock()
	d.suspension.suspended = false
	d.suspension.startMu.Unlock()
	d.reloaded()
}

// startSteps starts the steps that this process may run and returns them, unless the daemon is suspended or a shadow.
func (d *Daemon) startSteps(ctx context.Context, p plan.Plan, seen plan.Observed) []plan.Step {
	d.suspension.startMu.Lock()
	defer d.suspension.startMu.Unlock()
	if d.suspension.suspended || d.Shadow {
		return nil
	}
	p.Steps = slices.DeleteFunc(slices.Clone(p.Steps), func(s plan.Step) bool { return !d.mayRun(&s) })
	return d.runner.Start(ctx, p, seen)
}

// unlessSuspended calls do, which writes to the store, unless the daemon is suspended.
func (d *Daemon) unlessSuspended(do func() error) error {
	d.suspension.startMu.Lock()
	defer d.suspension.startMu.Unlock()
	if d.suspension.suspended {
		return nil
	}
	return do()
}
