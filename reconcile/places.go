package reconcile

import (
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

// resize makes the places of providers as many as they say by now. Who has one keeps it, and who waits may have one.
func (r *run) resize(providers []resources.Provider) {
	r.guard.Lock()
	defer r.guard.Unlock()
	for i := range providers {
		if p := r.places[providerPlaces(providers[i].Name)]; p != nil {
			p.size, _ = concurrencyOf(&providers[i])
			p.grant()
		}
	}
}

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
	if p, ok := x.provider(s.Provider); ok {
		size, limited = concurrencyOf(p)
	}
	switch s.Action {
	case plan.ActionBuild, plan.ActionConvert:
		key, size = "build", max(x.Builds, 1) // a build fills a machine
		if x.madeElsewhere(s.Image) {
			key, size = "build elsewhere", concurrency // and these fill others, whose queue they wait in
		}
	case plan.ActionUpload:
		key, size = "upload "+s.Provider, 2
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

// madeElsewhere reports whether other hosts make the image.
func (x *execution) madeElsewhere(image string) bool {
	_, builder, err := x.imageBuilder(image)
	_, remote := builder.(builders.Remote)
	return err == nil && remote
}
