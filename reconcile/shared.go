package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/npctl/npctl/internal/waits"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// unclaimTimeout bounds the release of one claim.
const unclaimTimeout = 10 * time.Second

// claims holds the claims of this process on records of a shared store. With a store that no other process uses it has
// no claims, and its methods do nothing.
type claims struct {
	store state.Shared // nil: the store is not shared

	mu    sync.Mutex // guards the fields below
	held  map[resources.Key]*claimed
	steps map[string]context.CancelCauseFunc // by step ID: cancels a step that has lost its claim
}

type claimed struct {
	lock state.Lock
	step string        // the step that it ends with; empty: it lasts until it is released
	done chan struct{} // closed when the claim is released
}

func newClaims(store state.Store) *claims {
	shared, _ := store.(state.Shared)
	return &claims{store: shared, held: map[resources.Key]*claimed{}, steps: map[string]context.CancelCauseFunc{}}
}

// begin returns a context for a step that is canceled when the step loses one of its claims.
func (c *claims) begin(ctx context.Context, step string) context.Context {
	if c.store == nil {
		return ctx
	}
	ctx, cancel := context.WithCancelCause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps[step] = cancel
	return ctx
}

// acquire claims a record until the step ends or, if step is empty, until the claim is released. It returns errChanged
// if the record is gone or another process has claimed it.
func (c *claims) acquire(ctx context.Context, step string, key resources.Key) (state.Entry, error) {
	c.mu.Lock()
	_, already := c.held[key]
	c.mu.Unlock()
	if already {
		return state.Entry{}, fmt.Errorf("another step of this process works on %s: %w", key, errChanged)
	}
	lock, entry, err := c.store.Claim(ctx, key)
	if errors.Is(err, state.ErrLocked) || errors.Is(err, state.ErrNotFound) {
		return state.Entry{}, fmt.Errorf("%w: %w", errChanged, err)
	}
	if err != nil {
		return state.Entry{}, err
	}
	if err := c.register(ctx, step, key, lock); err != nil {
		return state.Entry{}, err
	}
	return entry, nil
}

// register stores a new claim. If the record is gone already, register releases the claim and returns errChanged.
func (c *claims) register(ctx context.Context, step string, key resources.Key, lock state.Lock) error {
	mine := &claimed{lock: lock, step: step, done: make(chan struct{})}
	c.mu.Lock()
	c.held[key] = mine
	c.mu.Unlock()
	go c.guard(context.WithoutCancel(ctx), key, mine)
	if _, err := c.store.Get(ctx, key); errors.Is(err, state.ErrNotFound) { // catchUp may have handled the deletion before the claim was stored
		c.release(ctx, key)
		return fmt.Errorf("%w: %w", errChanged, err)
	}
	return nil
}

// committed registers the claims that a commit has acquired and removes the released ones.
func (c *claims) committed(ctx context.Context, step string, ops []state.Op, entries []state.Entry) {
	for i, op := range ops {
		switch {
		case op.Claim && entries[i].ClaimLock != nil:
			_ = c.register(ctx, step, entries[i].Record.Key(), entries[i].ClaimLock) // catchUp removes a record that is gone from the cache
		case op.Release:
			c.mu.Lock()
			if mine := c.held[op.Record.Key()]; mine != nil {
				delete(c.held, op.Record.Key())
				close(mine.done)
			}
			c.mu.Unlock()
		}
	}
}

// guard waits for the loss of a claim. If the claim belongs to a step, guard cancels the step, which releases its
// claims when it ends; until then no write under the lost claim succeeds. It releases any other claim at once.
func (c *claims) guard(ctx context.Context, key resources.Key, mine *claimed) {
	select {
	case <-mine.lock.Lost():
	case <-mine.done:
		return
	}
	if mine.step != "" {
		c.stop(mine.step, fmt.Errorf("the claim of %s: %w", key, state.ErrLost))
		return
	}
	c.mu.Lock()
	current := c.held[key] == mine
	if current {
		delete(c.held, key)
	}
	c.mu.Unlock()
	if current {
		releaseClaims(ctx, mine)
	}
}

// stop cancels a step.
func (c *claims) stop(step string, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if stop := c.steps[step]; stop != nil {
		stop(why)
	}
}

// end releases the claims of a step.
func (c *claims) end(ctx context.Context, step string) {
	if c.store == nil {
		return
	}
	c.mu.Lock()
	if cancel := c.steps[step]; cancel != nil {
		cancel(nil)
		delete(c.steps, step)
	}
	var back []*claimed
	for key, mine := range c.held {
		if mine.step == step {
			back = append(back, mine)
			delete(c.held, key)
		}
	}
	c.mu.Unlock()
	releaseClaims(ctx, back...)
}

// release releases the claim of a record, if this process has one.
func (c *claims) release(ctx context.Context, key resources.Key) {
	c.mu.Lock()
	mine := c.held[key]
	delete(c.held, key)
	c.mu.Unlock()
	if mine != nil {
		releaseClaims(ctx, mine)
	}
}

// releaseClaims ends claims. A claim that cannot be released ends with the session.
func releaseClaims(ctx context.Context, back ...*claimed) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unclaimTimeout)
	defer cancel()
	for _, mine := range back {
		close(mine.done)
		_ = mine.lock.Unlock(ctx)
	}
}

// connectedPoll is the interval at which awaitConnected checks the connection of the store.
const connectedPoll = 20 * time.Millisecond

// awaitConnected waits until the store is connected, and returns an error if the given step has lost a claim. step may
// be empty. It is called before each change in a cloud: while this process was suspended or disconnected, another
// process may have resumed the work on its records.
func (c *claims) awaitConnected(ctx context.Context, step string) error {
	if c.store == nil {
		return nil
	}
	for !c.store.Connected() {
		if err := waits.Sleep(ctx, connectedPoll); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, mine := range c.held {
		if step != "" && mine.step == step && isLost(mine.lock) {
			return fmt.Errorf("the claim of %s: %w", key, state.ErrLost)
		}
	}
	return context.Cause(ctx)
}

func isLost(lock state.Lock) bool {
	select {
	case <-lock.Lost():
		return true
	default:
		return false
	}
}

// isDisconnected reports whether an error is due to a lost claim or connection of the store. Such an error says nothing
// about the cloud.
func (c *claims) isDisconnected(err error) bool {
	return c.store != nil && err != nil && (errors.Is(err, state.ErrLost) || !c.store.Connected())
}

// has reports whether a record is claimed.
func (c *claims) has(key resources.Key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held[key] != nil
}

// keys returns the keys of the claimed records.
func (c *claims) keys() map[resources.Key]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := make(map[resources.Key]bool, len(c.held))
	for key := range c.held {
		keys[key] = true
	}
	return keys
}

// claimRecord claims the record of a step. It returns errChanged if another process has changed the record since the
// step was planned; the next plan covers the record again.
func (x *execution) claimRecord(ctx context.Context, s plan.Step) error {
	if x.cache.claims.store == nil {
		return nil
	}
	entry, err := x.cache.claims.acquire(ctx, s.ID, s.Record)
	if err != nil {
		return err
	}
	x.cache.refreshEntry(ctx, entry)
	return x.asPlanned(s, entry.Revision)
}

// asPlanned returns errChanged if the record of a step has another revision than in the plan. It does not check a step
// with needs, because a step that it needs may have changed the record.
func (x *execution) asPlanned(s plan.Step, at state.Revision) error {
	if x.cache.claims.store == nil || len(s.Needs) > 0 || uint64(at) == x.seen.Records.Revisions[s.Record] {
		return nil
	}
	return fmt.Errorf("%s was changed after the step was planned: %w", s.Record, errChanged)
}

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
	var steps []*runningStep
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
			if request != nil && of(&plan.Step{Kind: plan.KindServe, Provider: request.Placement.Provider}) {
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
		may = may || !known && isCreatedHere(w.key.Kind)
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

// isCreatedHere reports whether a commit in flight may have created an unknown record of the kind. The steps of this
// process create nodes and uploads, and the store assigns their IDs.
func isCreatedHere(kind resources.Kind) bool {
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
