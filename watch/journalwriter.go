package watch

import (
	"context"
	"fmt"
	"sync"

	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// JournalWriter writes the steps of a command that runs without a daemon, such as npctl apply, to the journal.
type JournalWriter struct {
	store state.Store

	mu      sync.Mutex // guards unsaved
	unsaved []resources.Event

	writing sync.Mutex // held by Flush; guards page
	page    page
}

// NewNotes returns a JournalWriter for a store. Flush requires permission to write records there.
func NewNotes(store state.Store) *JournalWriter { return &JournalWriter{store: store} }

// Step records a step event. It is for reconcile.Options.Report.
func (n *JournalWriter) Step(event reconcile.Event) {
	if e, ok := journaled(event); ok {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.unsaved = newest(append(n.unsaved, e))
	}
}

// Keep writes events every journalEvery until ctx is done.
func (n *JournalWriter) Keep(ctx context.Context) {
	for sleep(ctx, journalEvery) {
		_ = n.Flush(ctx) // the next attempt writes them too
	}
}

// Flush writes the unsaved events and removes the oldest records beyond the limit.
func (n *JournalWriter) Flush(ctx context.Context) error {
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

// write writes as many events as fit into one record.
func (n *JournalWriter) write(ctx context.Context, events []resources.Event) (written int, err error) {
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
