package bolt_test

import (
	"path/filepath"
	"testing"

	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/state/statetest"
)

func TestContract(t *testing.T) {
	statetest.Run(t, statetest.Harness{
		New: func(t *testing.T) func(*testing.T) state.Store {
			path := filepath.Join(t.TempDir(), "npctl.db")
			return func(t *testing.T) state.Store { return open(t, path) }
		},
		Steal: func(t *testing.T, s state.Store, _ string, lock state.Lock) {
			if _, err := s.(*bolt.Store).ForceUnlock(t.Context(), lock.ID()); err != nil {
				t.Fatal(err)
			}
		},
	})
}

func open(t *testing.T, path string) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(bolt.Options{Path: path, Version: "0.1.0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}
