//go:build integration

package zookeeper_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/zookeeper"
)

// elsewhere opens the store of a process on another machine, with a private store of its own.
func (tr *tree) elsewhere(t *testing.T, with ...func(*zookeeper.Options)) *zookeeper.Store {
	t.Helper()
	other := *tr
	other.private = filepath.Join(t.TempDir(), "private.db")
	return other.open(t, with...)
}

func paused(t *testing.T, s *zookeeper.Store, image string) bool {
	t.Helper()
	entry, err := s.Get(t.Context(), key(resources.KindImage, image))
	if errors.Is(err, state.ErrNotFound) {
		return false
	}
	testutil.Must(t, err)
	return entry.Record.(*resources.ImageRecord).Paused
}

func TestImagePauseIsShared(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	one1, two := tr.elsewhere(t), tr.elsewhere(t)
	const flag = "/nodepool/images/noble/pause"
	entry := one(t, one1, state.Op{Record: &resources.ImageRecord{Name: "noble", Kind: resources.DiskImage, Paused: true}})
	if !tr.there(t, flag) {
		t.Error("Nodepool does not see the pause")
	}
	testutil.Must(t, two.Sync(t.Context()))
	if !paused(t, two, "noble") {
		t.Error("the other process does not see the pause")
	}
	if all, err := two.List(t.Context(), resources.KindImage); err != nil || len(all) != 1 {
		t.Errorf("the other process lists %v, %v; want the paused image", all, err)
	}
	tr.delete(t, flag) // as Nodepool's command line does
	testutil.Must(t, one1.Sync(t.Context()))
	if paused(t, one1, "noble") {
		t.Error("the pause outlives its flag")
	}
	tr.create(t, flag, "")
	testutil.Must(t, one1.Sync(t.Context()))
	if !paused(t, one1, "noble") {
		t.Error("Nodepool's pause is not seen")
	}
	one(t, one1, state.Op{Record: &resources.ImageRecord{Name: "noble", Kind: resources.DiskImage}, Revision: entry.Revision})
	if tr.there(t, flag) {
		t.Error("the flag outlives the pause")
	}
}

func TestBuildRequestIsShared(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	one1, two := tr.elsewhere(t), tr.elsewhere(t)
	testutil.Must(t, one1.RequestBuild(t.Context(), "noble", true))
	testutil.Must(t, one1.RequestBuild(t.Context(), "noble", true))
	if !tr.there(t, "/nodepool/images/noble/request-build") {
		t.Error("Nodepool does not see it")
	}
	testutil.Must(t, two.Sync(t.Context()))
	if got := two.RequestedBuilds(); !cmp.Equal(got, []string{"noble"}) {
		t.Errorf("wished are %v", got)
	}
	testutil.Must(t, two.RequestBuild(t.Context(), "noble", false))
	testutil.Must(t, two.RequestBuild(t.Context(), "noble", false))
	testutil.Must(t, one1.Sync(t.Context()))
	if got := one1.RequestedBuilds(); len(got) > 0 {
		t.Errorf("wished are %v", got)
	}
}

func TestCommitToBothStoresIsAtomic(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	s := tr.open(t)
	provider := one(t, s, state.Op{Record: &resources.ProviderRecord{Name: "cloud", Driver: "sandbox"}})
	made := one(t, s, state.Op{Record: node(resources.StateReady)})
	before, err := s.List(t.Context())
	testutil.Must(t, err)
	goodNode := state.Op{Record: withComment(made, "x"), Revision: made.Revision}
	goodProvider := state.Op{Record: &resources.ProviderRecord{Name: "cloud", Driver: "static"}, Revision: provider.Revision}
	badNode, badProvider := goodNode, goodProvider
	badNode.Revision--
	badProvider.Revision++
	for name, ops := range map[string][]state.Op{"private": {goodNode, badProvider}, "shared": {badNode, goodProvider}} {
		if _, err := s.Commit(t.Context(), ops...); !errors.Is(err, state.ErrConflict) {
			t.Errorf("%s: %v, want ErrConflict", name, err)
		}
		if after, err := s.List(t.Context()); err != nil || !cmp.Equal(before, after) {
			t.Errorf("%s: something was written: %v\n%s", name, err, cmp.Diff(before, after))
		}
	}
	entries, err := s.Commit(t.Context(), goodProvider, goodNode)
	testutil.Must(t, err)
	if entries[0].Record.Key().Kind != resources.KindProvider || entries[1].Record.Key() != made.Record.Key() {
		t.Errorf("entries %v are not in the order of the ops", entries)
	}
}

func TestReadOnlyStoreChangesNothing(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	readOnly := func(o *zookeeper.Options) { o.ReadOnly = true }
	empty := tr.elsewhere(t, readOnly) // also where npctl has never created a znode
	if got, err := empty.List(t.Context()); err != nil || len(got) > 0 {
		t.Errorf("%v, %v of an empty tree", got, err)
	}
	if names := tr.children(t, ""); len(names) > 0 {
		t.Errorf("it has made %v", names)
	}
	entry := one(t, tr.elsewhere(t), state.Op{Record: node(resources.StateReady)})
	s := tr.elsewhere(t, readOnly)
	before := tr.all(t)
	if got, err := s.Get(t.Context(), entry.Record.Key()); err != nil || got.Revision != entry.Revision {
		t.Errorf("%v, %v", got, err)
	}
	_, commit := s.Commit(t.Context(), state.Op{Key: entry.Record.Key(), Revision: entry.Revision})
	_, _, claim := s.Claim(t.Context(), entry.Record.Key())
	_, lock := s.Lock(t.Context(), "apply", state.Holder{})
	for name, err := range map[string]error{"commit": commit, "claim": claim, "lock": lock, "register": s.Register(t.Context(), resources.Presence{}),
		"wish": s.RequestBuild(t.Context(), "noble", true), "freeze": s.FreezeProvider(t.Context(), "cloud", true),
		"thaw": s.FreezeProvider(t.Context(), "cloud", false)} {
		if err == nil || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("%s: %v, want the read-only error", name, err)
		}
	}
	for _, err := range s.WritePast(t.Context()) {
		if err == nil || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("without the checks: %v, want the read-only error", err)
		}
	}
	if diff := cmp.Diff(before, tr.all(t)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

func TestRequestLockDirectoriesOutliveTheirRequests(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	s := tr.open(t)
	asked := one(t, s, state.Op{Record: request("debian")})
	for _, id := range []string{"200-0000000777", "200-0000000778", asked.Record.Key().ID} {
		tr.create(t, "/nodepool/requests-lock/"+id, "")
	}
	tr.create(t, "/nodepool/requests-lock/200-0000000778/"+contenderName(0), "")
	tr.elsewhere(t, func(o *zookeeper.Options) { o.Now = func() time.Time { return time.Now().Add(9 * time.Hour) } })
	testutil.Await(t, "the old directory is gone", func() bool { return !tr.there(t, "/nodepool/requests-lock/200-0000000777") })
	for _, id := range []string{"200-0000000778", asked.Record.Key().ID} {
		if !tr.there(t, "/nodepool/requests-lock/"+id) {
			t.Errorf("the directory of %s is gone, which is held or has its request", id)
		}
	}
}

func TestTreeOfANewerNpctlIsRejected(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	testutil.Must(t, tr.elsewhere(t).Close())
	tr.set(t, "/npctl", `{"schema": 99, "written_by": "7.0.0", "lineage": "x"}`)
	err := tryOpen(t.Context(), t, tr, func(*zookeeper.Options) {})
	if err == nil || !strings.Contains(err.Error(), "7.0.0") || !strings.Contains(err.Error(), "upgrade npctl") {
		t.Errorf("%v, want that a newer npctl is needed", err)
	}
}

func TestHolderOfAForeignLockIsReported(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	one1, two := tr.elsewhere(t), tr.elsewhere(t)
	if h, err := two.Holder(t.Context(), "apply"); err != nil || h != nil {
		t.Errorf("%v, %v; want no holder", h, err)
	}
	lock, err := one1.Lock(t.Context(), "apply", state.Holder{Operation: "watch"})
	testutil.Must(t, err)
	testutil.Must(t, two.Sync(t.Context()))
	if h, err := two.Holder(t.Context(), "apply"); err != nil || h == nil || h.ID != lock.ID() || h.Operation != "watch" || h.Host != "launch1.example" {
		t.Errorf("%+v, %v", h, err)
	}
	testutil.Must(t, lock.Unlock(t.Context()))
	foreign := tr.create(t, "/npctl/locks/apply/"+contenderName(7), "not JSON")
	testutil.Must(t, two.Sync(t.Context()))
	var locked *state.LockedError
	if _, err := two.Lock(t.Context(), "apply", state.Holder{}); !errors.As(err, &locked) || !strings.Contains(locked.Holder.UserHost, "session") {
		t.Errorf("%v, want that some session holds it", err)
	}
	if _, err := two.ForceUnlock(t.Context(), locked.Holder.ID); err != nil || tr.there(t, foreign) {
		t.Errorf("%v; the foreign contender must be deleted", err)
	}
}
