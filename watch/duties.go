package watch

import (
	"slices"

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
	return d.hasTask(TaskNodes) && d.hasProvider(provider) && d.leadership.holds(reconcile.ProviderLock(provider))
}

// buildsImages reports whether this process builds images.
func (d duties) buildsImages() bool {
	return d.hasTask(TaskImages) && (d.leadership.holds(reconcile.ImagesLock) || d.images.hasConfigured())
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
	undecided := d.hasTask(TaskNodes) && d.leadership.isUndecided(reconcile.ProviderLock(provider)) ||
		d.hasTask(TaskImages) && d.leadership.isUndecided(reconcile.ImagesLock)
	return undecided || d.manages(provider)
}

// mayRun reports whether a step belongs to a task of this process.
func (d duties) mayRun(s *plan.Step) bool {
	switch name := reconcile.LockOf(s); name {
	case "":
		return d.hasTask(TaskNodes) || s.Type == "file" // in the images directory, which belongs to this process only
	case reconcile.ProviderLock(s.Provider):
		return d.leads(s.Provider)
	default:
		return d.hasTask(TaskImages) && d.leadership.holds(name) && d.images.plannedUnder(name)
	}
}

// Leader returns the process that manages a provider's nodes while this process is a standby for the provider.
func (d *Daemon) Leader(provider string) (other state.Holder, standsBy bool) {
	return d.leadership.leader(reconcile.ProviderLock(provider))
}
