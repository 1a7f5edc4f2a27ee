package watch

import (
	"context"
	"errors"
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
	running func() []plan.Step
	resumed func() // called when the suspension has ended

	startMu   sync.Mutex // held while steps start and while suspended changes
	suspended bool       // guarded by startMu
}

// suspendPoll is the interval at which suspend checks whether the running steps have ended.
const suspendPoll = 20 * time.Millisecond

// Suspend stops the daemon from starting steps, and from writing anything but its journal on its own, until release is
// called, so that a client can apply a plan through its store. It returns when the running steps have ended. When ctx
// is done earlier, Suspend returns a BusyError and the daemon resumes. A suspended daemon still lists providers, and
// serves clients as far as that needs no step.
func (d *Daemon) Suspend(ctx context.Context) (release func(), err error) {
	return d.suspension.suspend(ctx)
}

func (s *suspension) suspend(ctx context.Context) (release func(), err error) {
	s.startMu.Lock()
	already := s.suspended
	s.suspended = true
	s.startMu.Unlock()
	if already {
		return nil, ErrSuspended
	}
	poll := time.NewTicker(suspendPoll)
	defer poll.Stop()
	for steps := s.running(); len(steps) > 0; steps = s.running() {
		select {
		case <-poll.C:
		case <-ctx.Done():
			s.resume()
			return nil, &BusyError{Steps: steps}
		}
	}
	return sync.OnceFunc(s.resume), nil
}

// resume ends the suspension.
func (s *suspension) resume() {
	s.whileNoneStarts(func() { s.suspended = false })
	s.resumed()
}

// unlessSuspended calls do, which starts steps or writes to the store, unless the daemon is suspended.
func (s *suspension) unlessSuspended(do func() error) error {
	s.startMu.Lock()
	defer s.startMu.Unlock()
	if s.suspended {
		return nil
	}
	return do()
}

// whileNoneStarts calls do while no step starts.
func (s *suspension) whileNoneStarts(do func()) {
	s.startMu.Lock()
	defer s.startMu.Unlock()
	do()
}
