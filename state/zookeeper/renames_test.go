//go:build integration

package zookeeper_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/zookeeper"
)

const renamedBuild = "0123456789abcdef0123456789abcdef"

// renaming is a build with an upload by npctl and one by Nodepool, and a node that Nodepool launched from the latter.
type renaming struct {
	*tree
	s             *zookeeper.Store
	build         state.Entry
	own, nodepool state.Entry
}

func newRenaming(t *testing.T) *renaming {
	t.Helper()
	r := &renaming{tree: newTree(t)}
	r.s = r.open(t)
	b := &resources.Build{ID: renamedBuild, Image: "old", Kind: resources.DiskImage, State: resources.StateReady, Host: "h", Created: time.Unix(1767225600, 0).UTC()}
	u := &resources.Upload{ID: "0000000007", Image: "old", Build: b.ID, Provider: "one", State: resources.StateReady, ExternalID: "image-7"}
	testutil.Must(t, r.s.Import(t.Context(), b, u))
	dir := "/nodepool/images/old/builds/" + renamedBuild
	r.set(t, dir, strings.Replace(r.data(t, dir), "{", `{"unknown": [1.50], `, 1))
	r.create(t, dir+"/providers/two", "")
	r.create(t, dir+"/providers/two/images", "")
	r.create(t, dir+"/providers/two/images/0000000003", `{"state": "ready", "state_time": 1767225600, "external_id": "image-3", "external_name": "n", "username": "zuul"}`)
	r.create(t, "/nodepool/nodes/0000000005", `{"state": "in-use", "type": ["a"], "provider": "two", "pool": "main", "image_id": "`+dir+`/providers/two/images/0000000003"}`)
	testutil.Must(t, r.s.Sync(t.Context()))
	r.build, r.own, r.nodepool = r.entry(t, r.s, b.Key()), r.entry(t, r.s, u.Key()), r.entry(t, r.s, key(resources.KindUpload, "old/"+renamedBuild+"/two/0000000003"))
	return r
}

func (r *renaming) entry(t *testing.T, s *zookeeper.Store, k resources.Key) state.Entry {
	t.Helper()
	entry, err := s.Get(t.Context(), k)
	if err != nil {
		t.Fatalf("get %s: %v", k, err)
	}
	return entry
}

// ops renames the image, as a move does.
func (r *renaming) ops() []state.Op {
	b, u, n := *r.build.Record.(*resources.Build), *r.own.Record.(*resources.Upload), *r.nodepool.Record.(*resources.Upload)
	b.Image, u.Image, n.Image = "new", "new", "new"
	n.ID, n.Former = "", []string{n.ID}
	return []state.Op{{Record: &b, Revision: r.build.Revision}, {Record: &u, Revision: r.own.Revision}, {Record: &n},
		{Key: r.nodepool.Record.Key(), Revision: r.nodepool.Revision}}
}

func TestRenamedBuildMovesWithItsUploads(t *testing.T) {
	t.Parallel()
	r := newRenaming(t)
	entries, err := r.s.Commit(t.Context(), r.ops()...)
	testutil.Must(t, err)
	if r.there(t, "/nodepool/images/old/builds/"+renamedBuild) {
		t.Error("the znode of the build is still at the earlier path")
	}
	for _, s := range []*zookeeper.Store{r.s, r.open(t)} {
		testutil.Must(t, s.Sync(t.Context()))
		build := r.entry(t, s, r.build.Record.Key())
		if build.Revision != entries[0].Revision {
			t.Errorf("the build is at revision %d, the commit returned %d", build.Revision, entries[0].Revision)
		}
		want := *r.build.Record.(*resources.Build)
		want.Image = "new"
		if diff := cmp.Diff(&want, build.Record); diff != "" {
			t.Errorf("build (-want +got):\n%s", diff)
		}
		upload := *r.own.Record.(*resources.Upload)
		upload.Image, upload.Former = "new", []string{"old/" + renamedBuild + "/one/0000000000"}
		if diff := cmp.Diff(&upload, r.entry(t, s, upload.Key()).Record); diff != "" {
			t.Errorf("npctl's upload (-want +got):\n%s", diff)
		}
		uploads, err := s.List(t.Context(), resources.KindUpload)
		testutil.Must(t, err)
		nodepool := entries[2].Record.(*resources.Upload)
		if len(uploads) != 2 || nodepool.ID != "0000000008" || nodepool.ExternalID != "image-3" {
			t.Errorf("%d uploads, that of Nodepool is %+v", len(uploads), nodepool)
		}
		if n := r.entry(t, s, key(resources.KindNode, "0000000005")).Record.(*resources.Node); n.Upload != nodepool.ID {
			t.Errorf("the node was booted from upload %q, want %s", n.Upload, nodepool.ID)
		}
	}
	if doc := r.data(t, "/nodepool/images/new/builds/"+renamedBuild); !strings.Contains(doc, `"unknown": [1.50]`) {
		t.Errorf("an unknown key is lost: %s", doc)
	}
	// a new upload has another number, and the renamed records can be changed and deleted
	u := &resources.Upload{Image: "new", Build: renamedBuild, Provider: "one", State: resources.StateUploading}
	one(t, r.s, state.Op{Record: u})
	for _, entry := range []state.Entry{r.entry(t, r.s, r.own.Record.Key()), r.entry(t, r.s, entries[2].Record.Key()), r.entry(t, r.s, u.Key()), r.entry(t, r.s, r.build.Record.Key())} {
		one(t, r.s, state.Op{Key: entry.Record.Key(), Revision: entry.Revision})
	}
	if r.there(t, "/nodepool/images/new/builds/"+renamedBuild) {
		t.Error("the deleted build is still there")
	}
}

func TestRenamedUploadLeavesItsBuild(t *testing.T) {
	t.Parallel()
	r := newRenaming(t)
	u := *r.own.Record.(*resources.Upload)
	u.Provider = "three"
	one(t, r.s, state.Op{Record: &u, Revision: r.own.Revision})
	dir := "/nodepool/images/old/builds/" + renamedBuild + "/providers/"
	if names := r.children(t, dir+"three/images"); len(names) != 1 || r.there(t, dir+"one/images/0000000000") || !r.there(t, dir+"two/images/0000000003") {
		t.Errorf("uploads of the present provider: %q", names)
	}
}

// A builder or launcher that has locked one of the records keeps all of them where they are.
func TestLockedUploadIsNotRenamed(t *testing.T) {
	t.Parallel()
	r := newRenaming(t)
	lock := "/nodepool/images/old/builds/" + renamedBuild + "/providers/one/images/0000000000/lock"
	if !r.there(t, lock) {
		r.create(t, lock, "")
	}
	held := r.create(t, lock+"/"+contenderName(1), "")
	testutil.Must(t, r.s.Sync(t.Context()))
	if _, err := r.s.Commit(t.Context(), r.ops()...); !errors.Is(err, state.ErrLocked) {
		t.Errorf("the commit ended with %v", err)
	}
	if r.there(t, "/nodepool/images/new/builds/"+renamedBuild) || !r.there(t, lock) {
		t.Error("the commit has moved records")
	}
	r.delete(t, held)
	testutil.Must(t, r.s.Sync(t.Context()))
	_, err := r.s.Commit(t.Context(), r.ops()...)
	testutil.Must(t, err)
}
