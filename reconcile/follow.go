package reconcile

import (
	"context"
	"fmt"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// Shared returns the runner's store if it is a shared one, or nil.
func (r *Runner) Shared() state.Shared { return r.cache.claims.store }

// Follow applies the changes of a shared store to the record cache until ctx ends. It calls news with each record that
// another process has written.
func (r *Runner) Follow(ctx context.Context, news func(resources.Record)) error {
	if r.Shared() == nil {
		return nil
	}
	hints, err := r.Shared().Watch(ctx)
	if err != nil {
		return fmt.Errorf("follow the state: %w", err)
	}
	for range hints {
		for _, record := range r.cache.catchUp(ctx) {
			news(record)
		}
	}
	return nil
}

// Abandon cancels the running steps for which of returns true, and returns a channel that is closed when they have
// ended. It then releases their requests, which the next leader serves from the start.
func (r *Runner) Abandon(of func(*plan.Step) bool) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	var steps []runningStep
	for _, s := range r.running {
		if of(&s.Step) {
			steps = append(steps, s)
			r.cache.claims.stop(s.ID, state.ErrLost)
		}
	}
	ended := make(chan struct{})
	go func() {
		for _, s := range steps {
			<-s.done
		}
		for key := range r.cache.claims.keys() {
			request, _ := get[resources.Request](r.cache, key)
			if request != nil && of(&plan.Step{Action: plan.ActionServe, Thing: plan.ThingRequest, Provider: request.Placement.Provider}) {
				r.cache.claims.release(context.Background(), key)
			}
		}
		close(ended)
	}()
	return ended
}
