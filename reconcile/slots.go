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

// slots limits how many steps run at a time, with one semaphore for each limit.
type slots struct {
	mu         sync.Mutex // guards the fields below
	semaphores map[string]*semaphore
	early      map[string]func() // by step ID: releases the slot of a step that only waits
}

func newSlots() *slots {
	return &slots{semaphores: map[string]*semaphore{}, early: map[string]func(){}}
}

// semaphore limits the steps of one kind, first come, first served. slots.mu guards its fields.
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

// acquire waits for a slot of the semaphore of the given name. size is used when the semaphore does not exist yet.
func (l *slots) acquire(ctx context.Context, name string, size int) (release func(), err error) {
	turn := make(chan struct{})
	l.mu.Lock()
	p := l.semaphores[name]
	if p == nil {
		p = &semaphore{size: max(size, 1)}
		l.semaphores[name] = p
	}
	p.waiting = append(p.waiting, turn)
	p.grant()
	l.mu.Unlock()
	release = func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		p.inUse--
		p.grant()
	}
	select {
	case <-turn:
		return release, nil
	case <-ctx.Done():
		l.mu.Lock()
		i := slices.Index(p.waiting, turn)
		if i >= 0 {
			p.waiting = slices.Delete(p.waiting, i, i+1)
		}
		l.mu.Unlock()
		if i < 0 { // it got a slot at the same moment
			release()
		}
		return nil, ErrInterrupted
	}
}

// acquireFor waits for the slot that the kind of a step needs.
func (l *slots) acquireFor(ctx context.Context, e *Engine, s *plan.Step) (release func(), err error) {
	name, size, mayReleaseEarly := e.slotOf(s)
	release, err = l.acquire(ctx, name, size)
	if err != nil || !mayReleaseEarly {
		return release, err
	}
	early := sync.OnceFunc(release)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.early[s.ID] = early
	return func() {
		l.mu.Lock()
		delete(l.early, s.ID)
		l.mu.Unlock()
		early()
	}, nil
}

// releaseEarly releases the slot of a step that has sent its requests and only waits, so that other steps can start. It
// does nothing if the provider limits the steps in progress.
func (l *slots) releaseEarly(step string) {
	l.mu.Lock()
	release := l.early[step]
	l.mu.Unlock()
	if release != nil {
		release()
	}
}

// resize sets the sizes of a new configuration. A step that has a slot keeps it.
func (l *slots) resize(e *Engine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	to := func(name string, size int) {
		if p := l.semaphores[name]; p != nil {
			p.size = size
			p.grant()
		}
	}
	for i := range e.Desired.Providers {
		p := &e.Desired.Providers[i]
		to(providerSemaphore+p.Name, cmp.Or(int(p.MaxConcurrency), defaultConcurrency))
		to(uploadSemaphore+p.Name, cmp.Or(int(p.MaxUploads), uploadsAtATime))
	}
	for _, kind := range []string{workBuild, workFetch, workSnapshot, workConvert} {
		to(kind, e.workSize(kind))
	}
}

// Each provider has two semaphores, whose names start with these words.
const (
	providerSemaphore = "provider "
	uploadSemaphore   = "upload "
)

const (
	// uploadsAtATime is the default number of concurrent uploads to a provider.
	uploadsAtATime = 2
	// defaultConcurrency is how many steps send requests to a provider at a time if max_concurrency does not limit the
	// steps in progress.
	defaultConcurrency = 20
)

// slotOf returns the semaphore of a step, its size, and whether the step may release its slot early: max_concurrency
// limits all steps in progress, and its default only the steps that send requests.
func (e *Engine) slotOf(s *plan.Step) (name string, size int, mayReleaseEarly bool) {
	p, ok := e.provider(s.Provider)
	if !ok {
		p = &resources.Provider{}
	}
	switch kindOf(s).slot {
	case slotWork:
		name, size = e.WorkOf(*s)
		return name, size, false
	case slotUpload:
		return uploadSemaphore + s.Provider, cmp.Or(int(p.MaxUploads), uploadsAtATime), false
	default:
		return providerSemaphore + s.Provider, cmp.Or(int(p.MaxConcurrency), defaultConcurrency), p.MaxConcurrency <= 0
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

// WorkOf returns the kind of work of a step on an image, and how many steps of that kind run at a time.
func (e *Engine) WorkOf(s plan.Step) (kind string, size int) {
	img, builder, err := e.imageBuilder(s.Image)
	_, remote := builder.(builders.Remote)
	switch {
	case err == nil && remote:
		kind = workRemote
	case s.Action == plan.ActionConvert:
		kind = workConvert
	case img != nil && img.Kind == resources.ZuulImage:
		kind = workFetch
	case img != nil && img.Builder == "snapshot":
		kind = workSnapshot
	default:
		kind = workBuild
	}
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
