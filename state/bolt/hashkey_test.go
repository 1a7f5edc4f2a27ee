package bolt

import (
	"bytes"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/npctl/npctl/resources"
)

func hashKeyOf(t *testing.T, opts Options) resources.HashKey {
	t.Helper()
	s, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	id, err := s.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return id.HashKey
}

func TestFileOfAnOlderNpctlGetsAHashKey(t *testing.T) {
	path := first(t)
	s, err := Open(Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	serial := uint64(0)
	_, err = s.update(t.Context(), func(tx *bbolt.Tx, h *head) error { // as in a file of an older npctl
		h.HashKey, h.raw, serial = nil, nil, h.Serial
		return h.save(tx)
	})
	if err != nil {
		t.Fatal(err)
	}
	if key := hashKeyOf(t, Options{Path: path, ReadOnly: true}); key != "" {
		t.Errorf("a read-only file has a key of %d bytes long", len(key))
	}
	key := hashKeyOf(t, Options{Path: path})
	if again := hashKeyOf(t, Options{Path: path, ReadOnly: true}); len(key) != 32 || again != key {
		t.Errorf("the key has %d bytes, and is another one later: %v", len(key), again != key)
	}
	if id, err := s.Identity(t.Context()); err != nil || id.Serial != serial {
		t.Errorf("serial is %d, want %d: nothing of the records has changed (%v)", id.Serial, serial, err)
	}
}

func TestHashKeyIsNotExported(t *testing.T) {
	from, to := first(t), tempPath(t)
	s, err := Open(Options{Path: from})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var doc bytes.Buffer
	if err := s.Export(t.Context(), &doc); err != nil {
		t.Fatal(err)
	}
	copied, err := Open(Options{Path: to})
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	before := hashKeyOf(t, Options{Path: to})
	if err := copied.Import(t.Context(), &doc, false); err != nil {
		t.Fatal(err)
	}
	if after := hashKeyOf(t, Options{Path: to}); after != before || after == hashKeyOf(t, Options{Path: from}) {
		t.Error("the copy has lost its hash key")
	}
}
