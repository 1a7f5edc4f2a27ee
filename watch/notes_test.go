package watch_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/watch"
)

func TestNotesKeepTheNewestOfTheJournal(t *testing.T) {
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(t.TempDir(), "npctl.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close() //nolint:errcheck // a test's
	const rounds, each = 40, 3
	for round := range rounds {
		notes := watch.NewNotes(store)
		for i := range each {
			notes.Step(reconcile.Event{Kind: reconcile.EventDone, ID: fmt.Sprint(round*each + i),
				Step: plan.Step{Action: plan.ActionLaunch, Thing: plan.ThingNode, Provider: "one", Label: "small"}})
			notes.Step(reconcile.Event{Kind: reconcile.EventProgress})
		}
		for range 2 { // the second has nothing to write
			if err := notes.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	entries, err := store.List(t.Context(), resources.KindJournal)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 25 {
		t.Errorf("%d records are kept", len(entries))
	}
	newest := ""
	for _, entry := range entries {
		piece := entry.Record.(*resources.Journal)
		if len(piece.Events) != each {
			t.Errorf("%s has %d events", piece.Key(), len(piece.Events))
		}
		newest = piece.Events[len(piece.Events)-1].Subject
	}
	if want := fmt.Sprintf("node/%d", rounds*each-1); newest != want {
		t.Errorf("the newest event is about %s, not %s", newest, want)
	}
}

func TestNotesThatAreWrittenOftenShareARecord(t *testing.T) {
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(t.TempDir(), "npctl.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close() //nolint:errcheck // a test's
	notes := watch.NewNotes(store)
	const events = 250
	for i := range events {
		notes.Step(reconcile.Event{Kind: reconcile.EventDone, ID: fmt.Sprint(i),
			Step: plan.Step{Action: plan.ActionLaunch, Thing: plan.ThingNode, Provider: "one", Label: "small"}})
		if err := notes.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := store.List(t.Context(), resources.KindJournal)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for _, entry := range entries {
		for _, e := range entry.Record.(*resources.Journal).Events {
			kept = append(kept, e.Subject)
		}
	}
	if len(entries) != 2 || len(kept) != events {
		t.Errorf("%d events are kept in %d records, want %d in 2", len(kept), len(entries), events)
	}
	for i, subject := range kept {
		if want := fmt.Sprintf("node/%d", i); subject != want {
			t.Fatalf("event %d is about %s, want %s", i, subject, want)
		}
	}
}
