package main

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
)

func pauseStore(t *testing.T) *bolt.Store {
	t.Helper()
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(t.TempDir(), "npctl.db")})
	testutil.Must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func recordedImage(t *testing.T, store state.Store) (resources.ImageRecord, state.Revision) {
	t.Helper()
	entry, err := store.Get(t.Context(), resources.Key{Kind: resources.KindImage, ID: "debian"})
	testutil.Must(t, err)
	return *entry.Record.(*resources.ImageRecord), entry.Revision
}

func TestPauseKeepsOtherFields(t *testing.T) {
	store := pauseStore(t)
	ref := resources.ImageRef{Kind: resources.DiskImage, Name: "debian"}
	before := resources.ImageRecord{Name: "debian", Kind: resources.DiskImage, PreventDestroy: true, MissingVersions: []string{"v1"}, Failure: &resources.Failure{Count: 2}}
	if _, err := store.Commit(t.Context(), state.Op{Record: &before}); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		paused      bool
		reason      string
		changed     bool
		want        bool
		wantsReason string
	}{
		{true, "why", true, true, "why"}, {true, "", false, true, "why"}, {true, "other", true, true, "other"},
		{false, "", true, false, ""}, {false, "", false, false, ""},
	} {
		changed, err := setPaused(t.Context(), store, ref, c.paused, c.reason)
		if err != nil || changed != c.changed {
			t.Errorf("step %d: changed %t, %v; want %t", i, changed, err, c.changed)
		}
		want := before
		want.Paused, want.PauseReason = c.want, c.wantsReason
		got, _ := recordedImage(t, store)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
	}
}

func TestUnpauseOfAnUnpausedImageWritesNothing(t *testing.T) {
	store := pauseStore(t)
	changed, err := setPaused(t.Context(), store, resources.ImageRef{Name: "debian"}, false, "")
	entries, listErr := store.List(t.Context())
	if changed || err != nil || listErr != nil || len(entries) != 0 {
		t.Errorf("changed %t, %v, %d records, %v", changed, err, len(entries), listErr)
	}
}

// A running apply may write the record at the same time. Both changes must be preserved.
func TestPauseDuringApplyLosesNoChange(t *testing.T) {
	store := pauseStore(t)
	ref := resources.ImageRef{Kind: resources.DiskImage, Name: "debian"}
	if _, err := store.Commit(t.Context(), state.Op{Record: &resources.ImageRecord{Name: "debian"}}); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	const times = 20
	group.Go(func() {
		for i := range times {
			if _, err := setPaused(t.Context(), store, ref, true, fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		}
	})
	group.Go(func() {
		for done := 0; done < times; {
			record, revision := recordedImage(t, store)
			record.MissingVersions = append(record.MissingVersions, fmt.Sprint(done))
			if _, err := store.Commit(t.Context(), state.Op{Record: &record, Revision: revision}); err == nil {
				done++
			}
		}
	})
	group.Wait()
	if got, _ := recordedImage(t, store); len(got.MissingVersions) != times || got.PauseReason != fmt.Sprint(times-1) {
		t.Errorf("%d of %d changes, reason %q", len(got.MissingVersions), times, got.PauseReason)
	}
}
