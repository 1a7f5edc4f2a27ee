//go:build integration

package zookeeper_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/state/zookeeper"
)

// tryOpen opens a store and returns the error.
func (tr *tree) tryOpen(t *testing.T, with func(*zookeeper.Options)) error {
	t.Helper()
	private, err := bolt.Open(bolt.Options{Path: filepath.Join(t.TempDir(), "private.db"), Version: "0.1.0"})
	testutil.Must(t, err)
	defer private.Close() //nolint:errcheck // nothing was written
	secure := tr.tls()
	opts := zookeeper.Options{Hosts: tr.servers(), Chroot: tr.chroot, TLS: &secure, Private: private, Host: "launch1", SessionTimeout: 4 * time.Second}
	with(&opts)
	s, err := zookeeper.Open(t.Context(), opts)
	if err != nil {
		return err
	}
	return s.Close()
}

func lineage(name string) func(*zookeeper.Options) {
	return func(o *zookeeper.Options) { o.Lineage = name }
}

func arriving(name string) func(*zookeeper.Options) {
	return func(o *zookeeper.Options) { o.Lineage, o.Importing = name, true }
}

func TestMissingStateIsNotCreated(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	var other *zookeeper.LineageError
	if err := tr.tryOpen(t, lineage("mine")); !errors.As(err, &other) || other.Have != "" || other.Want != "mine" {
		t.Errorf("where npctl has never been: %v", err)
	}
	if names := tr.children(t, ""); len(names) > 0 {
		t.Errorf("it has left %q", names)
	}
	id, err := tr.open(t).Identity(t.Context())
	testutil.Must(t, err)
	if err := tr.tryOpen(t, lineage("mine")); !errors.As(err, &other) || other.Have != id.Lineage {
		t.Errorf("where another state is: %v", err)
	}
	if err := tr.tryOpen(t, lineage(id.Lineage)); err != nil {
		t.Errorf("where the state is: %v", err)
	}
}

func TestStateCannotBeOpenedDuringImport(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.open(t) // a state without a record is replaced
	s := tr.open(t, arriving("mine"))
	for what, with := range map[string]func(*zookeeper.Options){
		"anybody": lineage(""), "of that state": lineage("mine"), "who only reads": func(o *zookeeper.Options) { o.ReadOnly = true },
	} {
		if err := tr.tryOpen(t, with); !errors.Is(err, zookeeper.ErrImporting) {
			t.Errorf("%s: %v, want %v", what, err, zookeeper.ErrImporting)
		}
	}
	if err := tr.tryOpen(t, arriving("mine")); err != nil {
		t.Errorf("who goes on with it: %v", err)
	}
	n := node(resources.StateInUse)
	n.ID = "0000000042"
	testutil.Must(t, s.Import(t.Context(), n))
	testutil.Must(t, s.Import(t.Context(), n)) // a repeated import changes nothing
	testutil.Must(t, s.EndImport(t.Context()))
	testutil.Must(t, s.EndImport(t.Context()))
	after := tr.open(t, lineage("mine"))
	entry, err := after.Get(t.Context(), n.Key())
	testutil.Must(t, err)
	if got := entry.Record.(*resources.Node).State; got != resources.StateInUse {
		t.Errorf("the node is %s, want in-use", got)
	}
	if err := tr.tryOpen(t, arriving("yours")); !errors.As(err, new(*zookeeper.LineageError)) {
		t.Errorf("a second state: %v", err)
	}
}

func TestImportedUploadsKeepTheirIDs(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	s := tr.open(t)
	b := &resources.Build{ID: "0123456789abcdef0123456789abcdef", Image: "debian", Kind: resources.DiskImage, State: resources.StateReady, Host: "h"}
	u := &resources.Upload{ID: "0000000007", Image: "debian", Build: b.ID, Provider: "cloud", State: resources.StateReady, ExternalID: "image-7"}
	n := node(resources.StateReady)
	n.ID, n.Upload = "0000000003", u.ID
	testutil.Must(t, s.Import(t.Context(), b, u))
	testutil.Must(t, s.Import(t.Context(), n))
	after := tr.open(t)
	entry, err := after.Get(t.Context(), n.Key())
	testutil.Must(t, err)
	if got := entry.Record.(*resources.Node).Upload; got != u.ID {
		t.Errorf("the node was booted from upload %q, want %q", got, u.ID)
	}
	_, err = after.Get(t.Context(), u.Key())
	testutil.Must(t, err)
	if err := s.Import(t.Context(), request("debian")); err == nil {
		t.Error("a request was imported")
	}
}

func TestReservedNumbersAreNotAssigned(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	s := tr.open(t)
	b := &resources.Build{ID: "0123456789abcdef0123456789abcdef", Image: "debian", Kind: resources.DiskImage, State: resources.StateBuilding, Host: "h"}
	one(t, s, state.Op{Record: b})
	one(t, s, state.Op{Record: node(resources.StateReady)})
	last, err := s.LastID(t.Context(), resources.KindNode)
	testutil.Must(t, err)
	if last != 0 {
		t.Errorf("the last number of a node is %d, want 0", last)
	}
	for _, upTo := range []uint64{4321, 4000} {
		testutil.Must(t, s.Reserve(t.Context(), resources.KindNode, upTo))
		testutil.Must(t, s.Reserve(t.Context(), resources.KindUpload, upTo))
	}
	for _, kind := range []resources.Kind{resources.KindNode, resources.KindUpload} {
		if last, err := s.LastID(t.Context(), kind); err != nil || last != 4321 {
			t.Errorf("the last number of a %s is %d, %v, want 4321", kind, last, err)
		}
	}
	if got := one(t, s, state.Op{Record: node(resources.StateReady)}).Record.Key().ID; got != "0000004322" {
		t.Errorf("a new node is %s, want 0000004322", got)
	}
	u := &resources.Upload{Image: "debian", Build: b.ID, Provider: "cloud", State: resources.StateUploading}
	if got := one(t, s, state.Op{Record: u}).Record.Key().ID; got != "0000004322" {
		t.Errorf("a new upload is %s, want 0000004322", got)
	}
	if names := tr.children(t, "/nodepool/nodes"); len(names) != 2 {
		t.Errorf("the nodes are %q", names)
	}
}

func TestPauseAppliesToAllProcesses(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	s, other := tr.open(t), tr.open(t, func(o *zookeeper.Options) { o.Host = "launch2" })
	testutil.Must(t, s.PauseImage(t.Context(), "debian", true))
	testutil.Must(t, s.PauseImage(t.Context(), "debian", true))
	key := key(resources.KindImage, "debian")
	testutil.Await(t, "another sees the pause", func() bool {
		entry, err := other.Get(t.Context(), key)
		return err == nil && entry.Record.(*resources.ImageRecord).Paused
	})
	testutil.Must(t, other.PauseImage(t.Context(), "debian", false))
	testutil.Await(t, "the pause ends", func() bool {
		_, err := s.Get(t.Context(), key)
		return errors.Is(err, state.ErrNotFound)
	})
}

func TestExportKeepsItsIDUntilItEnds(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	s := tr.open(t)
	first, err := s.BeginExport(t.Context())
	testutil.Must(t, err)
	again, err := tr.open(t).BeginExport(t.Context()) // an export does not keep other processes out
	testutil.Must(t, err)
	if first == "" || first != again {
		t.Errorf("the move is %q and then %q", first, again)
	}
	testutil.Must(t, s.EndExport(t.Context()))
	testutil.Must(t, s.EndExport(t.Context()))
	if next, err := s.BeginExport(t.Context()); err != nil || next == first {
		t.Errorf("another move is %q too, %v", next, err)
	}
}
