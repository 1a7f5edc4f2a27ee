package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

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

// A shared store also reports the writes of this process, and may do so before the commit that wrote them has returned.
// The cache would then show a node that no step here works on, as if its process had died, or no record of a machine
// after the old one is removed and before the new one appears. An event that may result from a commit in flight is
// therefore applied only after that commit has returned and named its records.

// deferredEvents holds the events that wait for commits to return. The mutex of recordCache guards it.
type deferredEvents struct {
	last     uint64                     // number of the commit that started last
	inFlight map[uint64][]resources.Key // commits in flight that create or remove records: the removed keys
	waiting  []deferredEvent
}

// deferredEvent is the change or the removal of a record.
type deferredEvent struct {
	after uint64 // the commit that had started last when the event arrived
	key   resources.Key
	entry state.Entry // without a record: it was removed
}

// beginCommit registers a commit that creates records without an ID or removes records, and returns its number. It
// returns 0 for any other commit: its records are identified by their keys.
func (a *deferredEvents) beginCommit(ops []state.Op) (number uint64) {
	var removed []resources.Key
	makes := false
	for _, op := range ops {
		switch {
		case op.Record == nil:
			removed = append(removed, op.Key)
		case op.Record.Key().ID == "":
			makes = true
		}
	}
	if !makes && len(removed) == 0 {
		return 0
	}
	a.last++
	a.inFlight[a.last] = removed
	return a.last
}

// endCommit returns the events that have waited for no other commit in flight.
func (a *deferredEvents) endCommit(number uint64) (over []deferredEvent) {
	if number == 0 {
		return nil
	}
	delete(a.inFlight, number)
	oldest := a.last + 1
	for n := range maps.Keys(a.inFlight) {
		oldest = min(oldest, n)
	}
	i := slices.IndexFunc(a.waiting, func(w deferredEvent) bool { return w.after >= oldest })
	if i < 0 {
		i = len(a.waiting)
	}
	over, a.waiting = a.waiting[:i:i], a.waiting[i:]
	return over
}

// defers stores an event that may result from a commit in flight, or that follows a deferred event of the same record.
// It reports whether it stored the event.
func (a *deferredEvents) defers(w deferredEvent, known bool) bool {
	if len(a.inFlight) == 0 && len(a.waiting) == 0 {
		return false
	}
	may := slices.ContainsFunc(a.waiting, func(before deferredEvent) bool { return before.key == w.key })
	if w.entry.Record != nil {
		may = may || !known && isStoreNumbered(w.key.Kind)
	} else {
		for _, removed := range a.inFlight {
			may = may || slices.Contains(removed, w.key)
		}
	}
	if may {
		w.after = a.last
		a.waiting = append(a.waiting, w)
	}
	return may
}

// isStoreNumbered reports whether the store assigns the IDs of records of a kind.
func isStoreNumbered(kind resources.Kind) bool {
	return kind == resources.KindNode || kind == resources.KindUpload
}

// applyEvent applies the change or removal of a record, and reports whether it was a newer revision. If this process
// writes the record at the same time, the newer revision wins. A removed record stays removed because IDs are not
// reused.
func (l *recordCache) applyEvent(ctx context.Context, w deferredEvent) bool {
	if w.entry.Record != nil {
		known := l.revisions[w.key]
		// the pause flag of an image changes without a new revision
		news := known < w.entry.Revision || known == w.entry.Revision && w.key.Kind == resources.KindImage
		if news {
			l.setEntry(w.entry)
		}
		return news
	}
	_, err := l.store.Get(ctx, w.key)
	if errors.Is(err, state.ErrNotFound) {
		l.deleteEntry(w.key)
	}
	return false
}

// catchUp applies the changes since its last call and returns the records that were newer.
func (l *recordCache) catchUp(ctx context.Context) (news []resources.Record) {
	changed, gone := l.claims.store.Changes()
	l.mu.Lock()
	for _, entry := range changed {
		w := deferredEvent{key: entry.Record.Key(), entry: entry}
		if _, known := l.revisions[w.key]; !l.arrivals.defers(w, known) && l.applyEvent(ctx, w) {
			news = append(news, entry.Record)
		}
	}
	for _, key := range gone {
		if w := (deferredEvent{key: key}); !l.arrivals.defers(w, true) {
			l.applyEvent(ctx, w)
		}
	}
	l.notify() // also when only a claim, a registration or the connection has changed
	l.mu.Unlock()
	for _, key := range gone {
		if key.Kind == resources.KindRequest {
			l.claims.release(ctx, key) // the request was canceled, or its requestor has taken the nodes
		}
	}
	return news
}
