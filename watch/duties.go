package watch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/state"
)

// Task is a part of the work of a daemon.
type Task string

// The tasks of a daemon.
const (
	TaskNodes  Task = "nodes"  // nodes and requests of the providers that the daemon serves
	TaskImages Task = "images" // builds and uploads
)

// assignment states which tasks and providers a daemon has. It never changes.
type assignment struct {
	tasks     []Task
	providers []string // empty means all
	shared    bool     // other processes use the store too
}

// hasTask reports whether the daemon performs a task. Without Options.Tasks it performs all of them, but in a shared
// store a daemon with Options.Providers leaves images to other processes.
func (a assignment) hasTask(task Task) bool {
	if len(a.tasks) > 0 {
		return slices.Contains(a.tasks, task)
	}
	return task == TaskNodes || len(a.providers) == 0 || !a.shared
}

// hasProvider reports whether Options.Providers includes the provider.
func (a assignment) hasProvider(provider string) bool {
	return len(a.providers) == 0 || slices.Contains(a.providers, provider)
}

// duties determines the work that this process does now, from its assignment and its locks.
type duties struct {
	assignment
	leadership *leadership
	images     *imageLocks
}

// leads reports whether this process manages the nodes of the provider.
func (d duties) leads(provider string) bool {
	return d.hasTask(TaskNodes) && d.hasProvider(provider) && d.leadership.holds(state.ProviderLock(provider))
}

// buildsImages reports whether this process builds images.
func (d duties) buildsImages() bool {
	return d.hasTask(TaskImages) && (d.leadership.holds(state.ImagesLock) || d.images.hasConfigured())
}

// manages reports whether this process manages nodes or images of the provider.
func (d duties) manages(provider string) bool {
	return d.leads(provider) || d.hasProvider(provider) && d.buildsImages()
}

// mayManage reports whether this process manages the provider, or does not know yet whether it can.
func (d duties) mayManage(provider string) bool {
	if !d.hasProvider(provider) {
		return false
	}
	undecided := d.hasTask(TaskNodes) && d.leadership.isUndecided(state.ProviderLock(provider)) ||
		d.hasTask(TaskImages) && d.leadership.isUndecided(state.ImagesLock)
	return undecided || d.manages(provider)
}

// mayRun reports whether a step belongs to a task of this process.
func (d duties) mayRun(s *plan.Step) bool {
	switch name := reconcile.LockOf(s); name {
	case "":
		return d.hasTask(TaskNodes) || s.Type == "file" // in the images directory, which belongs to this process only
	case state.ProviderLock(s.Provider):
		return d.leads(s.Provider)
	default:
		return d.hasTask(TaskImages) && d.leadership.holds(name) && d.images.plannedUnder(name)
	}
}

// Leader returns the process that manages a provider's nodes while this process is a standby for the provider.
func (d *Daemon) Leader(provider string) (other state.Holder, standsBy bool) {
	return d.leadership.leader(state.ProviderLock(provider))
}

// The daemon plans nothing for a frozen provider. In a shared store a freeze applies to all processes and only the
// store records it; otherwise the provider's record does. A freeze is independent of Options.Providers.

// Freeze freezes or thaws a provider. A freeze lasts until it is undone and survives a restart.
func (d *Daemon) Freeze(ctx context.Context, provider string, frozen bool) error {
	if !hasProvider(d.observer.Engine().Desired, provider) {
		return fmt.Errorf("there is no provider %s", provider)
	}
	// a step may be writing the provider's record for the first time
	if err := RetryConflict(ctx, func() error { return d.runner.FreezeProvider(ctx, provider, frozen) }); err != nil {
		return err
	}
	d.triggerPass()
	return nil
}

// Frozen returns the sorted names of the providers that are frozen or that Options.Providers excludes.
func (d *Daemon) Frozen() []string { return slices.Sorted(maps.Keys(d.skippedProviders())) }

// skippedProviders returns the providers that Frozen lists.
func (d *Daemon) skippedProviders() map[string]bool {
	names := frozenProviders(d.runner)
	for name := range d.pollers.known() {
		if !d.duties.hasProvider(name) {
			names[name] = true
		}
	}
	return names
}

// notPlanned returns the providers for which the daemon plans nothing now: the frozen ones and all that other
// processes manage.
func (d *Daemon) notPlanned() map[string]bool {
	names := d.skippedProviders()
	for _, name := range d.pollers.providers() {
		if !d.duties.manages(name) {
			names[name] = true
		}
	}
	return names
}

// frozenProviders returns the frozen providers; any process of a shared store may have frozen them.
func frozenProviders(runner *reconcile.Runner) map[string]bool {
	names := map[string]bool{}
	if shared := runner.Shared(); shared != nil {
		for _, name := range shared.FrozenProviders() {
			names[name] = true
		}
		return names
	}
	for _, p := range runner.ProviderRecords() {
		if p.Frozen {
			names[p.Name] = true
		}
	}
	return names
}

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
