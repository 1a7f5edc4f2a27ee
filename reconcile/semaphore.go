package reconcile

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// semaphore limits the steps of one kind, first come, first served. run.guard guards its fields.
type semaphore struct {
	size, inUse int
	waiting     []chan struct{} // closed when the waiting step gets a slot
}

// grant gives free slots to waiting steps.
func (p *semaphore) grant() {
	for p.inUse < p.size && len(p.waiting) > 0 {
		close(p.waiting[0])
		p.waiting = p.waiting[1:]
		p.inUse++
	}
}

// acquire waits for a slot of the semaphore of the given key. size is used when the semaphore does not exist yet.
func (r *run) acquire(ctx context.Context, key string, size int) (release func(), err error) {
	turn := make(chan struct{})
	r.guard.Lock()
	p := r.semaphores[key]
	if p == nil {
		p = &semaphore{size: max(size, 1)}
		r.semaphores[key] = p
	}
	p.waiting = append(p.waiting, turn)
	p.grant()
	r.guard.Unlock()
	select {
	case <-turn:
		return func() { r.releaseSlot(p) }, nil
	case <-ctx.Done():
		r.guard.Lock()
		i := slices.Index(p.waiting, turn)
		if i >= 0 {
			p.waiting = slices.Delete(p.waiting, i, i+1)
		}
		r.guard.Unlock()
		if i < 0 { // it got a slot at the same moment
			r.releaseSlot(p)
		}
		return nil, ErrInterrupted
	}
}

func (r *run) releaseSlot(p *semaphore) {
	r.guard.Lock()
	defer r.guard.Unlock()
	p.inUse--
	p.grant()
}

// resizeSemaphores sets the sizes of a new configuration. A step that has a slot keeps it.
func (e *Engine) resizeSemaphores(r *run) {
	r.guard.Lock()
	defer r.guard.Unlock()
	to := func(key string, size int) {
		if p := r.semaphores[key]; p != nil {
			p.size = size
			p.grant()
		}
	}
	for i := range e.Desired.Providers {
		p := &e.Desired.Providers[i]
		size, _ := concurrencyOf(p)
		to(providerSemaphore(p.Name), size)
		to(uploadSemaphore(p.Name), uploadsOf(p))
	}
	for _, kind := range []string{workBuild, workFetch, workSnapshot, workConvert} {
		to(kind, e.workSize(kind))
	}
}

// Kinds of image work, each with its own semaphore.
const (
	workBuild    = "build" // uses the resources of this host
	workFetch    = "fetch"
	workSnapshot = "snapshot"
	workConvert  = "convert"
	workRemote   = "build elsewhere" // uses other hosts, where the step waits in a queue
)

// workOf returns the kind of work of a step on an image.
func (x *execution) workOf(s plan.Step) string {
	_, builder, err := x.imageBuilder(s.Image)
	_, remote := builder.(builders.Remote)
	switch {
	case err == nil && remote:
		return workRemote
	case s.Action == plan.ActionConvert:
		return workConvert
	}
	i := slices.IndexFunc(x.Desired.Images, func(img resources.Image) bool { return img.Name == s.Image })
	switch {
	case i >= 0 && x.Desired.Images[i].Kind == resources.ZuulImage:
		return workFetch
	case i >= 0 && x.Desired.Images[i].Builder == "snapshot":
		return workSnapshot
	default:
		return workBuild
	}
}

// WorkOf returns the kind of work of a step on an image, and how many steps of that kind run at a time.
func (e *Engine) WorkOf(s plan.Step) (kind string, size int) {
	kind = e.execution(nil, plan.Observed{}).workOf(s)
	return kind, e.workSize(kind)
}

// workSize returns how many steps of a kind of work run at a time. A configuration that was not loaded from files may
// not set it.
func (e *Engine) workSize(kind string) int {
	w := e.Desired.Settings.ImageWork
	switch kind {
	case workBuild:
		return cmp.Or(e.Builds, int(w.Builds), 1)
	case workFetch:
		return cmp.Or(int(w.Fetches), 1)
	case workSnapshot:
		return cmp.Or(int(w.Snapshots), 1)
	case workConvert:
		return cmp.Or(int(w.Conversions), 1)
	default:
		return defaultConcurrency
	}
}

func uploadSemaphore(provider string) string { return "upload " + provider }

// uploadsAtATime is the default number of concurrent uploads to a provider.
const uploadsAtATime = 2

// uploadsOf returns how many uploads to a provider run at a time. p is nil if the provider is not configured.
func uploadsOf(p *resources.Provider) int {
	if p == nil {
		return uploadsAtATime
	}
	return cmp.Or(int(p.MaxUploads), uploadsAtATime)
}

// defaultConcurrency is how many steps send requests to a provider at a time if max_concurrency does not limit the
// steps in progress.
const defaultConcurrency = 20

func providerSemaphore(name string) string { return "provider " + name }

// concurrencyOf returns how many steps of a provider run at a time, and whether the limit applies to all steps in
// progress or only to steps that send requests. p is nil if the provider is not configured.
func concurrencyOf(p *resources.Provider) (size int, limited bool) {
	if p != nil && p.MaxConcurrency > 0 {
		return int(p.MaxConcurrency), true
	}
	return defaultConcurrency, false
}

// acquireSlot waits for the slot that the step's kind needs.
func (x *execution) acquireSlot(ctx context.Context, s plan.Step) (release func(), err error) {
	p, _ := x.provider(s.Provider)
	switch kindOf(&s).slot {
	case slotWork:
		work := x.workOf(s)
		return x.acquire(ctx, work, x.workSize(work))
	case slotUpload:
		return x.acquire(ctx, uploadSemaphore(s.Provider), uploadsOf(p))
	default:
		return x.acquireProvider(ctx, s, p)
	}
}

// acquireProvider waits for a slot of the step's provider. If max_concurrency is not set, the step may release the slot
// early.
func (x *execution) acquireProvider(ctx context.Context, s plan.Step, p *resources.Provider) (release func(), err error) {
	size, limited := concurrencyOf(p)
	release, err = x.acquire(ctx, providerSemaphore(s.Provider), size)
	if err != nil || limited {
		return release, err
	}
	early := sync.OnceFunc(release)
	x.guard.Lock()
	x.earlyReleases[s.ID] = early
	x.guard.Unlock()
	return func() {
		x.guard.Lock()
		delete(x.earlyReleases, s.ID)
		x.guard.Unlock()
		early()
	}, nil
}

// releaseEarly releases the slot of a step that has sent its requests and only waits, so that other steps can start. It
// does nothing if the provider limits the steps in progress.
func (r *run) releaseEarly(s plan.Step) {
	r.guard.Lock()
	release := r.earlyReleases[s.ID]
	r.guard.Unlock()
	if release != nil {
		release()
	}
}
