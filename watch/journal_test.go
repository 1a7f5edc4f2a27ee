package watch_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch"
)

// noted returns the subjects of the events that a test has recorded.
func noted(d *watch.Daemon) (subjects []string) {
	for _, e := range d.Journal.Since(0, "") {
		if e.Code == "test" {
			subjects = append(subjects, e.Subject)
		}
	}
	return subjects
}

func testEvent(i int) resources.Event {
	return resources.Event{Time: time.Now(), Subject: fmt.Sprintf("node/%d", i), Code: "test", Text: "something"}
}

func TestJournalSurvivesRestartWithFewEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, "label \"small\" {}\n", emulator.Options{})
		const each = 60
		var want []string
		for life := range 3 {
			d, end := l.daemon()
			for i := range each {
				d.Journal.Add(testEvent(life*each + i))
				want = append(want, fmt.Sprintf("node/%d", life*each+i))
				time.Sleep(3 * time.Second) // each event is written separately
			}
			end()
		}
		d, end := l.daemon()
		defer end()
		if got := noted(d); !slices.Equal(got, want) {
			t.Errorf("the journal has %d events %v, want the %d that there were", len(got), got, len(want))
		}
	})
}

func TestEventsOfClientsAppearOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, "label \"small\" {}\n", emulator.Options{})
		d, end := l.daemon()
		defer end()
		var want []string
		piece := &resources.Journal{ID: "0000000100"}
		for i := range 6 {
			want = append(want, fmt.Sprintf("node/%d", i))
			if i%2 == 0 { // the daemon records events of its own in between
				d.Journal.Add(testEvent(i))
				time.Sleep(3 * time.Second)
				continue
			}
			piece.Events = append(slices.Clip(piece.Events), testEvent(i))
			d.Journal.ImportEntries([]state.Entry{{Record: piece}, {}})
		}
		if got := noted(d); !slices.Equal(got, want) {
			t.Errorf("the journal has %v, want %v", got, want)
		}
	})
}

func TestJournalDoesNotWriteToRecordsOfClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, "label \"small\" {}\n", emulator.Options{})
		d, end := l.daemon()
		d.Journal.Add(testEvent(0))
		time.Sleep(3 * time.Second)
		var pieces []state.Entry
		var err error
		if pieces, err = d.Engine.Store.List(t.Context(), resources.KindJournal); err != nil || len(pieces) != 1 {
			t.Fatalf("the journal has %d records: %v", len(pieces), err)
		}
		piece := pieces[0].Record.(*resources.Journal) // as a client that created the record before the daemon started
		piece.Events = append(piece.Events, testEvent(1))
		if _, err = d.Runner().Commit(t.Context(), state.Op{Record: piece, Revision: pieces[0].Revision}); err != nil {
			t.Fatal(err)
		}
		d.Journal.Add(testEvent(2))
		time.Sleep(3 * time.Second)
		end()
		d, end = l.daemon()
		defer end()
		piece.Events = append(piece.Events, testEvent(3))
		d.Journal.ImportEntries([]state.Entry{{Record: piece}})
		if got, want := noted(d), []string{"node/0", "node/1", "node/2", "node/3"}; !slices.Equal(got, want) {
			t.Errorf("the journal has %v, want %v", got, want)
		}
	})
}
