package reconcile

import (
	"context"
	"errors"
	"fmt"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// Shared is the runner's store where others work in it too, or nil.
func (r *Runner) Shared() state.Shared { return r.ledger.claims.store }

// Follow keeps up with what others write, where they work in the same store, until ctx ends. News is called with each
// record that others have written.
func (r *Runner) Follow(ctx context.Context, news func(resources.Record)) error {
	if r.Shared() == nil {
		return nil
	}
	hints, err := r.Shared().Watch(ctx)
	if err != nil {
		return fmt.Errorf("follow the state: %w", err)
	}
	for range hints {
		for _, record := range r.ledger.catchUp(ctx) {
			news(record)
		}
	}
	return nil
}

// Abandon ends those steps that are being done and that of accepts, and returns a channel that closes when they have ended.
// Requests that were to be served by such steps are given back then: whoever takes over begins with them anew.
func (r *Runner) Abandon(of func(*plan.Step) bool) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	var steps []underway
	for _, s := range r.running {
		if of(&s.Step) {
			steps = append(steps, s)
			r.ledger.claims.stop(s.ID, state.ErrLost)
		}
	}
	ended := make(chan struct{})
	go func() {
		for _, s := range steps {
			<-s.done
		}
		r.giveRequestsBack(of)
		close(ended)
	}()
	return ended
}

func (r *Runner) giveRequestsBack(of func(*plan.Step) bool) {
	for key := range r.ledger.claims.keys() {
		request, _ := get[resources.Request](r.ledger, key)
		if request != nil && of(&plan.Step{Action: plan.ActionServe, Thing: plan.ThingRequest, Provider: request.Place.Provider}) {
			r.ledger.claims.letGo(context.Background(), key)
		}
	}
}

// refresh reads records anew after a commit has found that others have changed them.
func (l *ledger) refresh(ctx context.Context, ops []state.Op) {
	for _, op := range ops {
		key := op.Key
		if op.Record != nil {
			key = op.Record.Key()
		}
		entry, err := l.store.Get(ctx, key)
		switch {
		case err == nil:
			l.know(ctx, entry)
		case errors.Is(err, state.ErrNotFound):
			l.forget(key)
		}
	}
}

// forget drops a record that is gone.
func (l *ledger) forget(key resources.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lose(key)
	l.hint()
}
