package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// unclaimTimeout bounds giving one claim back.
const unclaimTimeout = 10 * time.Second

// claims are the records that this process works on, where others work in the same store. Where nobody else does there
// are none, and nothing here does anything.
type claims struct {
	store state.Shared // nil: nobody else works in the store

	mu    sync.Mutex // guards what follows
	held  map[resources.Key]*claimed
	steps map[string]context.CancelCauseFunc // by step id: how to stop one that has lost its claim
}

type claimed struct {
	lock state.Lock
	step string        // that it ends with; empty: it lasts until it is let go
	done chan struct{} // closed when it is given back
}

func newClaims(store state.Store) *claims {
	shared, _ := store.(state.Shared)
	return &claims{store: shared, held: map[resources.Key]*claimed{}, steps: map[string]context.CancelCauseFunc{}}
}

// begin returns a context for a step that ends when something is lost that the step has claimed.
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

// take claims a record, for as long as the step lasts or, without a step, until it is let go. What another has, or what is
// gone, is errChanged.
func (c *claims) take(ctx context.Context, step string, key resources.Key) (state.Entry, error) {
	c.mu.Lock()
	_, already := c.held[key]
	c.mu.Unlock()
	if already {
		return state.Entry{}, fmt.Errorf("%s is worked on here: %w", key, errChanged)
	}
	lock, entry, err := c.store.Claim(ctx, key)
	if errors.Is(err, state.ErrLocked) || errors.Is(err, state.ErrNotFound) {
		return state.Entry{}, fmt.Errorf("%w: %w", errChanged, err)
	}
	if err != nil {
		return state.Entry{}, err
	}
	if err := c.keep(ctx, step, key, lock); err != nil {
		return state.Entry{}, err
	}
	return entry, nil
}

// keep takes down a claim that was made. When the record is gone already, it is let go, and the error is errChanged.
func (c *claims) keep(ctx context.Context, step string, key resources.Key, lock state.Lock) error {
	mine := &claimed{lock: lock, step: step, done: make(chan struct{})}
	c.mu.Lock()
	c.held[key] = mine
	c.mu.Unlock()
	go c.guard(context.WithoutCancel(ctx), key, mine)
	if _, err := c.store.Get(ctx, key); errors.Is(err, state.ErrNotFound) { // who takes note that it is gone may have looked before
		c.letGo(ctx, key)
		return fmt.Errorf("%w: %w", errChanged, err)
	}
	return nil
}

// claiming is the op of a record that is there with a claim of it, for as long as the step lasts or, without a step, until
// it is let go.
func (c *claims) claiming(step string, op state.Op) (state.Op, error) {
	if c.store == nil {
		return op, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	mine := c.held[op.Record.Key()]
	if mine != nil && (mine.step != step || step == "") {
		return op, fmt.Errorf("%s is worked on here: %w", op.Record.Key(), errChanged)
	}
	op.Claim = mine == nil
	return op, nil
}

// committed takes down the claims that a commit has made and ended.
func (c *claims) committed(ctx context.Context, step string, ops []state.Op, entries []state.Entry) {
	for i, op := range ops {
		switch {
		case op.Claim && entries[i].Claim != nil:
			_ = c.keep(ctx, step, op.Record.Key(), entries[i].Claim) // what is gone shows in the ledger
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

// guard ends what is done under a claim that was lost. A step gives its own back when it has ended: until then nothing can
// be written under it.
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
		giveBack(ctx, mine)
	}
}

// stop makes a step end.
func (c *claims) stop(step string, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if stop := c.steps[step]; stop != nil {
		stop(why)
	}
}

// end gives back what a step has claimed.
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
	giveBack(ctx, back...)
}

// letGo gives a record back, if it is claimed.
func (c *claims) letGo(ctx context.Context, key resources.Key) {
	c.mu.Lock()
	mine := c.held[key]
	delete(c.held, key)
	c.mu.Unlock()
	if mine != nil {
		giveBack(ctx, mine)
	}
}

// giveBack ends claims. One that cannot be given back ends with the session.
func giveBack(ctx context.Context, back ...*claimed) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unclaimTimeout)
	defer cancel()
	for _, mine := range back {
		close(mine.done)
		_ = mine.lock.Unlock(ctx)
	}
}

// securedPoll is how often is looked whether the store can be relied upon again.
const securedPoll = 20 * time.Millisecond

// secured waits until the store can be relied upon, and tells when what a step has claimed, if one is named, is lost. It is called before
// something is done in a cloud: somebody else may go on with what was claimed by a process that was stopped, or cut off.
func (c *claims) secured(ctx context.Context, step string) error {
	if c.store == nil {
		return nil
	}
	for !c.store.Connected() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(securedPoll):
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, mine := range c.held {
		if step != "" && mine.step == step && lost(mine.lock) {
			return fmt.Errorf("the claim of %s: %w", key, state.ErrLost)
		}
	}
	return context.Cause(ctx)
}

func lost(lock state.Lock) bool {
	select {
	case <-lock.Lost():
		return true
	default:
		return false
	}
}

// severed reports whether something failed because the store cannot be relied upon, which says nothing about clouds.
func (c *claims) severed(err error) bool {
	return c.store != nil && err != nil && (errors.Is(err, state.ErrLost) || !c.store.Connected())
}

// has reports whether a record is claimed.
func (c *claims) has(key resources.Key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held[key] != nil
}

// keys lists what is claimed.
func (c *claims) keys() map[resources.Key]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := make(map[resources.Key]bool, len(c.held))
	for key := range c.held {
		keys[key] = true
	}
	return keys
}

// claimRecord claims the record that a step works on for longer than it takes to write it. One that others have changed
// since the step was planned is errChanged: it is planned for again.
func (x *execution) claimRecord(ctx context.Context, s plan.Step) error {
	if x.ledger.claims.store == nil || !lasting(s) {
		return nil
	}
	switch {
	case s.Record.Kind == resources.KindNode && s.Action == plan.ActionDelete: // removeNode does that
		return nil
	case s.Record.Kind == resources.KindNode, s.Record.Kind == resources.KindUpload, s.Record.Kind == resources.KindBuild:
	default:
		return nil
	}
	entry, err := x.ledger.claims.take(ctx, s.ID, s.Record)
	if err != nil {
		return err
	}
	x.ledger.know(ctx, entry)
	return x.asPlanned(s, entry.Revision)
}

// asPlanned refuses a step whose record is at another revision than when it was planned, unless a step that it needs may have
// changed it.
func (x *execution) asPlanned(s plan.Step, at state.Revision) error {
	if x.ledger.claims.store == nil || len(s.Needs) > 0 || uint64(at) == x.seen.Records.Revisions[s.Record] {
		return nil
	}
	return fmt.Errorf("%s was changed after the step was planned: %w", s.Record, errChanged)
}
