package watch_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/watch"
)

func openJournal(t *testing.T, store state.Store) *watch.Journal {
	t.Helper()
	journal, err := watch.OpenJournal(t.Context(), store)
	testutil.Must(t, err)
	return journal
}

func TestJournalKeepsTheNewestEvents(t *testing.T) {
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(t.TempDir(), "npctl.db")})
	testutil.Must(t, err)
	defer store.Close() //nolint:errcheck // test cleanup
	const rounds, each = 40, 3
	for round := range rounds {
		notes := openJournal(t, store)
		for i := range each {
			notes.AddStep(reconcile.Event{Kind: reconcile.EventDone, ID: fmt.Sprint(round*each + i),
				Step: plan.Step{Kind: plan.KindLaunch, Provider: "one", Label: "small"}})
			notes.AddStep(reconcile.Event{Kind: reconcile.EventProgress})
		}
		for range 2 { // the second writes nothing
			testutil.Must(t, notes.Flush(t.Context()))
		}
	}
	entries, err := store.List(t.Context(), resources.KindJournal)
	testutil.Must(t, err)
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

func TestFrequentEventsShareARecord(t *testing.T) {
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(t.TempDir(), "npctl.db")})
	testutil.Must(t, err)
	defer store.Close() //nolint:errcheck // test cleanup
	notes := openJournal(t, store)
	const events = 250
	for i := range events {
		notes.AddStep(reconcile.Event{Kind: reconcile.EventDone, ID: fmt.Sprint(i),
			Step: plan.Step{Kind: plan.KindLaunch, Provider: "one", Label: "small"}})
		testutil.Must(t, notes.Flush(t.Context()))
	}
	entries, err := store.List(t.Context(), resources.KindJournal)
	testutil.Must(t, err)
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

func TestEventsOfRequestsNameTheirNodes(t *testing.T) {
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(t.TempDir(), "npctl.db")})
	testutil.Must(t, err)
	defer store.Close() //nolint:errcheck // test cleanup
	request := plan.Step{Address: "request.17", Request: "17", Provider: "rack", Pool: "main"}
	step := func(kind plan.Kind, reason plan.Reason, nodes []string, evidence ...plan.Fact) reconcile.Event {
		s := request
		s.Kind, s.Reason, s.Nodes, s.Evidence = kind, reason, nodes, evidence
		return reconcile.Event{Kind: reconcile.EventDone, Step: s}
	}
	failed := step(plan.KindDecline, plan.ReasonDeadline, nil)
	failed.Kind, failed.Err = reconcile.EventFailed, errors.New("no disk")
	notes := openJournal(t, store)
	want := []string{
		"reserved in rack/main: 1 node launching",
		"reserved in rack/main: node 0000000001, 2 nodes launching",
		"reserved in rack/main: node 0000000001, node 0000000002",
		"failed: its deadline has passed",
		"declined: a pool cannot serve it (rack/main: too small)",
		"decline request.17 failed: no disk",
	}
	for _, event := range []reconcile.Event{
		step(plan.KindServe, plan.ReasonRequestWaiting, []string{""}),
		step(plan.KindServe, plan.ReasonRequestWaiting, []string{"0000000001", "", ""}),
		step(plan.KindServe, plan.ReasonRequestWaiting, []string{"0000000001", "0000000002"}),
		step(plan.KindDecline, plan.ReasonDeadline, nil),
		step(plan.KindDecline, plan.ReasonDeclined, nil, plan.Fact{Name: "rack/main", Value: "too small"}),
		failed,
	} {
		notes.AddStep(event)
	}
	testutil.Must(t, notes.Flush(t.Context()))
	entries, err := store.List(t.Context(), resources.KindJournal)
	if err != nil || len(entries) != 1 {
		t.Fatalf("the journal has %d records: %v", len(entries), err)
	}
	var got []string
	for _, e := range entries[0].Record.(*resources.Journal).Events {
		got = append(got, e.Text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
