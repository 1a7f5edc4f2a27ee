package bolt

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

func history(subject string, seconds float64) *resources.History {
	return &resources.History{Subject: subject, Seconds: []float64{seconds}}
}

// TestConcurrentCommitsShareATransaction holds the token until a hundred commits wait, every third of which is
// invalid. The invalid ones fail, and one transaction writes the others.
func TestConcurrentCommitsShareATransaction(t *testing.T) {
	s := newTestStore(t)
	ctx := t.Context()
	if _, err := s.Commit(ctx, state.Op{Record: history("taken", 1)}); err != nil {
		t.Fatal(err)
	}
	before, err := s.file.peek()
	testutil.Must(t, err)
	<-s.group.turn
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			ops := []state.Op{{Record: history(fmt.Sprint(i), 1)}}
			if i%3 == 0 {
				ops = append(ops, state.Op{Record: history("taken", 2)}) // fails: revision 0 creates, and the record exists
			}
			entries, err := s.Commit(ctx, ops...)
			if bad := i%3 == 0; bad != errors.Is(err, state.ErrConflict) || !bad && (err != nil || len(entries) != 1) {
				t.Errorf("commit %d: %v, %v", i, entries, err)
			}
		})
	}
	for waitingIn(s) < 100 {
		runtime.Gosched()
	}
	s.group.turn <- struct{}{}
	all.Wait()
	after, err := s.file.peek()
	testutil.Must(t, err)
	if after.txid != before.txid+1 {
		t.Errorf("%d transactions, want 1", after.txid-before.txid)
	}
	revisions := map[state.Revision]bool{}
	entries, err := s.List(ctx, resources.KindHistory)
	testutil.Must(t, err)
	for _, e := range entries {
		revisions[e.Revision] = true
	}
	if len(entries) != 1+66 || len(revisions) != len(entries) {
		t.Errorf("%d records of %d revisions, want 67", len(entries), len(revisions))
	}
}

// TestCommitCancelledWhileWaitingIsNotWritten checks that a waiting commit is not written after its ctx is canceled.
func TestCommitCancelledWhileWaitingIsNotWritten(t *testing.T) {
	s := newTestStore(t)
	<-s.group.turn
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := s.Commit(ctx, state.Op{Record: history("a", 1)})
		ended <- err
	}()
	for waitingIn(s) < 1 {
		runtime.Gosched()
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	s.group.turn <- struct{}{}
	if _, err := s.Get(t.Context(), resources.Key{Kind: resources.KindHistory, ID: "a"}); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func waitingIn(s *Store) int {
	s.group.mu.Lock()
	defer s.group.mu.Unlock()
	return len(s.group.waiting)
}

func newTestStore(t *testing.T) *Store {
	t.Helper()
	s, err := Open(Options{Path: filepath.Join(t.TempDir(), "state.db")})
	testutil.Must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}
