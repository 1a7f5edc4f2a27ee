package watch

import (
	"context"
	"sync"

	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// JournalWriter writes the steps of a command that runs without a daemon, such as npctl apply, to the journal.
type JournalWriter struct {
	store   state.Store
	unsaved unsavedEvents

	writing sync.Mutex // held by Flush; guards page
	page    page
}

// NewJournalWriter returns a JournalWriter for a store. Flush requires permission to write records there.
func NewJournalWriter(store state.Store) *JournalWriter { return &JournalWriter{store: store} }

// Step records a step event. It is for reconcile.Options.Report.
func (n *JournalWriter) Step(event reconcile.Event) {
	if e, ok := journaled(event); ok {
		n.unsaved.add(e)
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
	return n.unsaved.flush(func(events []resources.Event) (int, error) { return n.write(ctx, events) })
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
