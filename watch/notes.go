package watch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
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
	writing sync.Mutex // held by Flush
}

// NewNotes returns notes for a store. Whoever may write records there may Flush them.
func NewNotes(store state.Store) *Notes { return &Notes{store: store} }

// Step notes what became of a step. It is for reconcile.Options.Report.
func (n *Notes) Step(event reconcile.Event) {
	if e, ok := journaled(event); ok {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.unsaved = append(n.unsaved, e)
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
		piece := events[:min(len(events), journalPiece)]
		if err := n.write(ctx, piece); err != nil {
			n.mu.Lock()
			n.unsaved = append(events, n.unsaved...)
			n.mu.Unlock()
			return fmt.Errorf("write journal: %w", err)
		}
		events = events[len(piece):]
	}
	return nil
}

// write adds a record and removes those beyond the number that is kept. Their ids grow.
func (n *Notes) write(ctx context.Context, piece []resources.Event) error {
	entries, err := n.store.List(ctx, resources.KindJournal)
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b state.Entry) int { return cmp.Compare(a.Record.Key().ID, b.Record.Key().ID) })
	ops := []state.Op{{Record: &resources.Journal{Events: piece}}}
	for _, old := range entries[:max(0, len(entries)-journalPieces+1)] {
		ops = append(ops, state.Op{Key: old.Record.Key(), Force: true})
	}
	_, err = n.store.Commit(ctx, ops...)
	return err
}
