package httpapi_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/watch/httpapi"
	"github.com/npctl/npctl/watch/httpapi/client"
)

// listen serves the daemon at l.socket and returns a function that stops it.
func (l *lab) listen() (end func()) {
	l.t.Helper()
	listener, err := httpapi.ListenUnix(l.socket, 0o600)
	testutil.Must(l.t, err)
	return l.serve(listener)
}

func (l *lab) openStore() *client.Store { return openStoreOf(l.t, l.socket) }

func TestDaemonStartsNothingDuringApply(t *testing.T) {
	l := newLab(t, fleet, nil)
	s := l.openStore()
	lock, err := s.Lock(t.Context(), "state", state.Holder{Operation: "apply", UserHost: "me@here"})
	testutil.Must(t, err)
	status, err := l.Status(t.Context())
	if err != nil || status.SuspendedBy != "apply by me@here" {
		t.Errorf("status says %q, %v", status.SuspendedBy, err)
	}
	r, err := l.CreateRequest(t.Context(), wire.NewRequest{Labels: []string{"metal"}})
	testutil.Must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if got, err := l.WaitRequest(ctx, r.ID); err == nil {
		t.Fatalf("the request was answered while the daemon is parked: %+v", got)
	}
	if steps, err := l.Steps(t.Context()); err != nil || len(steps) != 0 {
		t.Errorf("steps %+v run, %v", steps, err)
	}
	entries, err := s.Commit(t.Context(), state.Op{Record: &resources.Node{State: resources.StateBuilding, Provider: "one", Pool: "main", Labels: []string{"small"}}})
	testutil.Must(t, err)
	why, err := l.Why(t.Context(), "node/"+entries[0].Record.Key().ID)
	if err != nil || len(why.Waits) == 0 || why.Waits[0].Code != "in-progress" || !strings.Contains(why.Waits[0].Text, "apply by me@here") || len(why.Planned) > 0 {
		t.Errorf("a node that the apply launches waits for %+v, planned is %+v, %v", why.Waits, why.Planned, err)
	}
	testutil.Must(t, lock.Unlock(t.Context()))
	if got, err := l.WaitRequest(t.Context(), r.ID); err != nil || got.State != resources.StateFulfilled {
		t.Errorf("request is %s: %v", got.State, err)
	}
}

func TestDaemonResumesWhenTheLockHolderVanishes(t *testing.T) {
	l := newLab(t, fleet, nil)
	for range 3 {
		c, err := client.New(client.Options{Socket: l.socket})
		testutil.Must(t, err)
		s, err := client.OpenStore(t.Context(), c)
		testutil.Must(t, err)
		ctx, die := context.WithCancel(t.Context())
		testutil.Must(t, holdForEver(ctx, l.socket))
		if _, err := s.Lock(t.Context(), "state", state.Holder{}); !errors.Is(err, state.ErrLocked) {
			t.Errorf("two have the lock: %v", err)
		}
		die()
		l.await("the lock is free", func() bool {
			lock, err := s.Lock(t.Context(), "state", state.Holder{})
			return err == nil && lock.Unlock(t.Context()) == nil
		})
		_ = s.Close()
	}
	l.fulfilled("metal")
}

func TestLockErrorNamesRunningSteps(t *testing.T) {
	gate := filepath.Join(testutil.ShortDir(t), "gate")
	l := newLab(t, strings.Replace(fleet, "printf image", "while [ ! -e "+gate+" ]; do sleep 0.05; done; printf image", 1), nil)
	defer func() { _ = os.WriteFile(gate, nil, 0o600) }()
	l.await("the image is being built", func() bool {
		steps, err := l.Steps(t.Context())
		return err == nil && len(steps) == 1 && steps[0].Action == "build"
	})
	limit, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := l.daemon.Suspend(limit); err == nil || !strings.Contains(err.Error(), "build diskimage.debian") {
		t.Errorf("the daemon is parked while it builds: %v", err)
	}
	s := l.openStore()
	holder, err := s.Holder(t.Context(), "state")
	if err != nil || holder == nil || holder.Operation != "watch" {
		t.Errorf("the state is held by %+v, %v", holder, err)
	}
	_, err = s.ForceUnlock(t.Context(), holder.ID)
	refused(t, err, wire.CodeInvalidState, "stop it instead")
	l.fulfilled("metal") // the daemon is not suspended
	why, err := l.Why(t.Context(), "image/debian")
	if err != nil || why.State != "running" || len(why.Running) != 1 {
		t.Errorf("why is %+v, %v", why, err)
	}
}

func TestDaemonKnowsWritesThroughItsStore(t *testing.T) {
	l := newLab(t, fleet, nil)
	s := l.openStore()
	made, err := s.Commit(t.Context(), state.Op{Record: &resources.Request{State: resources.StateRequested, StateTime: time.Now(), Created: time.Now(),
		Labels: []string{"metal"}, Priority: 100}})
	testutil.Must(t, err)
	r, err := l.WaitRequest(t.Context(), made[0].Record.Key().ID)
	if err != nil || r.State != resources.StateFulfilled {
		t.Errorf("request is %s: %v", r.State, err)
	}
	if s.Path() == "" {
		t.Error("the daemon does not say where its state is")
	}
}

// wishing is a shared store in which other processes request builds.
type wishing struct {
	meeting
	mu     sync.Mutex
	wished map[string]bool
}

func (w *wishing) RequestedBuilds() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.wished))
}

func (w *wishing) RequestBuild(_ context.Context, image string, wish bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.wished, image)
	if wish {
		w.wished[image] = true
	}
	return nil
}

// TestBuildRequestsOfOthersAreReported checks that a client of the daemon's store sees build requests of other
// processes and can withdraw them.
func TestBuildRequestsOfOthersAreReported(t *testing.T) {
	s := openStoreOf(t, serveStoreAs(t, func(own *bolt.Store) state.Store {
		return &wishing{meeting: meeting{own}, wished: map[string]bool{"debian": true, "ubuntu": true}}
	}, httpapi.Options{}))
	wished := func() []string {
		t.Helper()
		work, err := s.Activity(t.Context())
		if err != nil || !work.Shared {
			t.Fatalf("the store is told to be nobody else's: %+v, %v", work, err)
		}
		return work.RequestedBuilds
	}
	if got := wished(); !slices.Equal(got, []string{"debian", "ubuntu"}) {
		t.Errorf("wished are %q", got)
	}
	testutil.Must(t, s.RequestBuild(t.Context(), "debian", false))
	if got := wished(); !slices.Equal(got, []string{"ubuntu"}) {
		t.Errorf("after one was taken back, wished are %q", got)
	}
}

func TestLocalStoreHasNoBuildRequests(t *testing.T) {
	s := openStoreOf(t, serveStore(t))
	if err := s.RequestBuild(t.Context(), "debian", false); err != nil {
		t.Error(err)
	}
	if work, err := s.Activity(t.Context()); err != nil || len(work.RequestedBuilds) > 0 {
		t.Errorf("wished are %q, %v", work.RequestedBuilds, err)
	}
}

// TestUndelegatedLockIsForceReleased checks that ForceUnlock of an unknown ID takes the lock from
// another process in the shared store.
func TestUndelegatedLockIsForceReleased(t *testing.T) {
	var asked []string
	s := openStoreOf(t, serveStoreAs(t, func(own *bolt.Store) state.Store { return meeting{own} }, httpapi.Options{
		Unlock: func(_ context.Context, id string) (state.Holder, error) {
			if asked = append(asked, id); id != "theirs" {
				return state.Holder{}, state.ErrNotFound
			}
			return state.Holder{ID: id, UserHost: "root@there"}, nil
		}}))
	lent, err := s.Lock(t.Context(), "images", state.Holder{})
	testutil.Must(t, err)
	if _, err := s.ForceUnlock(t.Context(), lent.ID()); err != nil {
		t.Error(err)
	}
	if holder, err := s.ForceUnlock(t.Context(), "theirs"); err != nil || holder.UserHost != "root@there" {
		t.Errorf("the lock of another process was held by %+v, %v", holder, err)
	}
	if _, err := s.ForceUnlock(t.Context(), "nobodys"); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("a lock that nobody has: %v", err)
	}
	if want := []string{"theirs", "nobodys"}; !slices.Equal(asked, want) {
		t.Errorf("in the store were looked for %q, want %q", asked, want)
	}
}
