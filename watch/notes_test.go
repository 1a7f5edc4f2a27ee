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
