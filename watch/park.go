package watch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/npctl/npctl/plan"
)

// ErrParked: somebody has parked the daemon already.
var ErrParked = errors.New("the daemon is parked already")

// BusyError is why the daemon could not be parked: steps did not end in time.
type BusyError struct {
	Steps []plan.Step
}

func (e *BusyError) Error() string {
	text := "still at work:"
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

// parking keeps the daemon from beginning steps while somebody else does some.
type parking struct {
	turn   sync.Mutex // held while steps are begun, or the daemon is parked or released
	parked bool       // guarded by turn
}

// parkPoll is how often is looked whether steps have ended.
const parkPoll = 20 * time.Millisecond

// Park makes the daemon begin nothing, and write nothing by itself but its journal, until release is called, so that
// somebody else can apply a plan through its store. It returns when what runs is done. When ctx ends before, that is a
// BusyError, and the daemon goes on. Meanwhile providers are looked at, and clients are served as far as that needs no
// step.
func (d *Daemon) Park(ctx context.Context) (release func(), err error) {
	d.parking.turn.Lock()
	already := d.parking.parked
	d.parking.parked = true
	d.parking.turn.Unlock()
	if already {
		return nil, ErrParked
	}
	look := time.NewTicker(parkPoll)
	defer look.Stop()
	for steps := d.runner.Running(); len(steps) > 0; steps = d.runner.Running() {
		select {
		case <-look.C:
		case <-ctx.Done():
			d.unpark()
			return nil, &BusyError{Steps: steps}
		}
	}
	return sync.OnceFunc(d.unpark), nil
}

// unpark goes on with a fresh look at everything: what was done meanwhile is not in the listings there are.
func (d *Daemon) unpark() {
	d.parking.turn.Lock()
	d.parking.parked = false
	d.parking.turn.Unlock()
	d.reloaded()
}

// begin begins steps, unless the daemon is parked or a shadow.
func (d *Daemon) begin(ctx context.Context, p plan.Plan, seen plan.Observed) []plan.Step {
	d.parking.turn.Lock()
	defer d.parking.turn.Unlock()
	if d.parking.parked || d.Shadow {
		return nil
	}
	p.Steps = slices.DeleteFunc(slices.Clone(p.Steps), func(s plan.Step) bool { return !d.mayDo(&s) })
	return d.runner.Begin(ctx, p, seen)
}

// unlessParked does something that writes to the store by itself.
func (d *Daemon) unlessParked(do func() error) error {
	d.parking.turn.Lock()
	defer d.parking.turn.Unlock()
	if d.parking.parked {
		return nil
	}
	return do()
}
