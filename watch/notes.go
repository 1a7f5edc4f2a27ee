package watch

import (
	"context"
	"fmt"
	"sync"

	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// Notes writes into the journal what is done without a daemon, such as by npctl apply.
type Notes struct {
	store state.Store

	mu      sync.Mutex // guards unsaved
	unsaved []resources.Event

	writing sync.Mutex // held by Flush; guards page
	page    page
}

// NewNotes returns notes for a store. Whoever may write records there may Flush them.
func NewNotes(store state.Store) *Notes { return &Notes{store: store} }

// Step notes what became of a step. It is for reconcile.Options.Report.
func (n *Notes) Step(event reconcile.Event) {
	if e, ok := journaled(event); ok {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.unsaved = newest(append(n.unsaved, e))
	}
}

// Keep writes from time to time until ctx ends.
func (n *Notes) Keep(ctx context.Context) {
	for sleep(ctx, journalEvery) {
		_ = n.Flush(ctx) // the next try has them too
	}
}

// Flush writes what is not written yet, and drops what is too old.
func (n *Notes) Flush(ctx context.Context) error {
	n.writing.Lock()
	defer n.writing.Unlock()
	n.mu.Lock()
	events := n.unsaved
	n.unsaved = nil
	n.mu.Unlock()
	for len(events) > 0 {
		written, err := n.write(ctx, events)
		if err != nil {
			n.mu.Lock()
			n.unsaved = newest(append(events, n.unsaved...))
			n.mu.Unlock()
			return fmt.Errorf("write journal: %w", err)
		}
		events = events[written:]
	}
	return nil
}

// write writes as many events as one record has room for.
func (n *Notes) write(ctx context.Context, events []resources.Event) (written int, err error) {
	entries, err := n.store.List(ctx, resources.KindJournal)
	if err != nil {
		return 0, err
	}
	ids := make([]string, len(entries))
	for i, e := range entries {
		ids[i] = e.Record.Key().ID
	}
	w, err := n.page.commit(events, ids, func(ops ...state.Op) ([]state.Entry, error) { return n.store.Commit(ctx, ops...) })
	if err != nil {
		return 0, err
	}
	n.page = w.page
	return w.written, nil
}
