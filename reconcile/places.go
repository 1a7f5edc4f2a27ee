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

// places are what steps take one of, first come, first served. The run's guard guards them.
type places struct {
	size, taken int
	waiting     []chan struct{} // of those who wait: closed when it is their turn
}

// grant gives away what is free.
func (p *places) grant() {
	for p.taken < p.size && len(p.waiting) > 0 {
		close(p.waiting[0])
		p.waiting = p.waiting[1:]
		p.taken++
	}
}

// place takes one of so many places.
func (r *run) place(ctx context.Context, key string, size int) (release func(), err error) {
	turn := make(chan struct{})
	r.guard.Lock()
	p := r.places[key]
	if p == nil {
		p = &places{size: max(size, 1)}
		r.places[key] = p
	}
	p.waiting = append(p.waiting, turn)
	p.grant()
	r.guard.Unlock()
	select {
	case <-turn:
		return func() { r.vacate(p) }, nil
	case <-ctx.Done():
		r.guard.Lock()
		i := slices.Index(p.waiting, turn)
		if i >= 0 {
			p.waiting = slices.Delete(p.waiting, i, i+1)
		}
		r.guard.Unlock()
		if i < 0 { // its turn came at the same moment
			r.vacate(p)
		}
		return nil, ErrInterrupted
	}
}

func (r *run) vacate(p *places) {
	r.guard.Lock()
	defer r.guard.Unlock()
	p.taken--
	p.grant()
}

// resize makes the places as many as a new configuration says. A step that has one keeps it.
func (e *Engine) resize(r *run) {
	r.guard.Lock()
	defer r.guard.Unlock()
	to := func(key string, size int) {
		if p := r.places[key]; p != nil {
			p.size = size
			p.grant()
		}
	}
	for i := range e.Desired.Providers {
		p := &e.Desired.Providers[i]
		size, _ := concurrencyOf(p)
		to(providerPlaces(p.Name), size)
		to(uploadPlaces(p.Name), uploadsOf(p))
	}
	for _, kind := range []string{workBuild, workFetch, workSnapshot, workConvert} {
		to(kind, e.workSize(kind))
	}
}

// Kinds of work on images, each with places of its own.
const (
	workBuild     = "build" // fills this machine
	workFetch     = "fetch"
	workSnapshot  = "snapshot"
	workConvert   = "convert"
	workElsewhere = "build elsewhere" // fills other machines, in whose queue the step waits
)

// workOf is the kind of work that a step on an image is.
func (x *execution) workOf(s plan.Step) string {
	_, builder, err := x.imageBuilder(s.Image)
	_, remote := builder.(builders.Remote)
	switch {
	case err == nil && remote:
		return workElsewhere
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

// workSize is how many steps of a kind of work run at a time. A configuration that was not loaded from files may say nothing.
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
		return concurrency
	}
}

func uploadPlaces(provider string) string { return "upload " + provider }

// uploadsAtATime is how many uploads a provider takes that does not say how many.
const uploadsAtATime = 2

func uploadsOf(p *resources.Provider) int { return cmp.Or(int(p.MaxUploads), uploadsAtATime) }

// concurrency is how many steps ask a provider for something at a time where max_concurrency does not say how many are
// under way.
const concurrency = 20

func providerPlaces(name string) string { return "provider " + name }

// concurrencyOf is how many steps there may be at a time, and whether that limits all that are under way or only those that
// ask for something.
func concurrencyOf(p *resources.Provider) (size int, limited bool) {
	if p.MaxConcurrency > 0 {
		return int(p.MaxConcurrency), true
	}
	return concurrency, false
}

// slot takes one of the places that the step's provider, or the builders, have.
func (x *execution) slot(ctx context.Context, s plan.Step) (release func(), err error) {
	key, size, limited := providerPlaces(s.Provider), concurrency, false
	uploads := uploadsAtATime
	if p, ok := x.provider(s.Provider); ok {
		size, limited = concurrencyOf(p)
		uploads = uploadsOf(p)
	}
	switch s.Action {
	case plan.ActionBuild, plan.ActionConvert:
		key = x.workOf(s)
		size = x.workSize(key)
	case plan.ActionUpload:
		key, size = uploadPlaces(s.Provider), uploads
	}
	release, err = x.place(ctx, key, size)
	if err != nil || limited || s.Action == plan.ActionBuild || s.Action == plan.ActionConvert || s.Action == plan.ActionUpload {
		return release, err
	}
	early := sync.OnceFunc(release)
	x.guard.Lock()
	x.seats[s.ID] = early
	x.guard.Unlock()
	return func() {
		x.guard.Lock()
		delete(x.seats, s.ID)
		x.guard.Unlock()
		early()
	}, nil
}

// waits says that a step has asked for what it needs and only waits now, which costs nothing: unless the provider limits
// what is under way, others may begin.
func (r *run) waits(s plan.Step) {
	r.guard.Lock()
	release := r.seats[s.ID]
	r.guard.Unlock()
	if release != nil {
		release()
	}
}
