package statetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// Shared runs the suite of state.Shared, with its tests in parallel. Each handle is a state.Shared. As in Run, Get and
// List of a handle from New return all earlier commits of others; Claimed, Changes and RegisteredPools may lag. Steal
// takes claims too: the name of a claim is the key of the record, as text.
func Shared(t *testing.T, h Harness) {
	if h.Within == 0 {
		h.Within = 10 * time.Second
	}
	for _, part := range []struct {
		name  string
		tests []sharedTest
	}{
		{"Claim", claimTests}, {"CommittedClaim", committedClaimTests}, {"LostClaim", lostClaimTests}, {"Claimed", claimedTests}, {"Changes", changesTests},
		{"Registry", registryTests}, {"Frozen", frozenTests}, {"Connected", connectedTests},
	} {
		t.Run(part.name, func(t *testing.T) {
			for _, test := range part.tests {
				t.Run(test.name, func(t *testing.T) {
					t.Parallel()
					test.run(&sharedEnv{env{T: t, Harness: h, open: h.New(t)}})
				})
			}
		})
	}
}

// sharedTest tests one rule of the contract.
type sharedTest struct {
	name string
	run  func(e *sharedEnv)
}

type sharedEnv struct{ env }

// shared opens a further handle.
func (e *sharedEnv) shared() state.Shared {
	e.Helper()
	s, ok := e.store().(state.Shared)
	if !ok {
		e.Fatal("the handle is no state.Shared")
	}
	return s
}

// claimable returns a record of each kind that can be claimed.
func claimable() []resources.Record {
	return []resources.Record{record(resources.KindRequest, 1), record(resources.KindNode, 2), record(resources.KindUpload, 3), record(resources.KindBuild, 4)}
}

func (e *sharedEnv) claim(s state.Shared, key resources.Key) (state.Lock, state.Entry) {
	e.Helper()
	c, entry, err := s.Claim(e.ctx(), key)
	if err != nil {
		e.Fatalf("Claim: %v", err)
	}
	return c, entry
}

// claimSoon claims a record that another handle has just released. The handle may learn of the release with a delay.
func (e *sharedEnv) claimSoon(s state.Shared, key resources.Key) (c state.Lock, entry state.Entry) {
	e.Helper()
	e.eventually(s, "it can be claimed", func() (ok bool) {
		var err error
		if c, entry, err = s.Claim(e.ctx(), key); err != nil && !errors.Is(err, state.ErrLocked) {
			e.Fatalf("Claim: %v", err)
		}
		return err == nil
	})
	return c, entry
}

// eventually calls so after each hint, as users of a store do, until it returns true.
func (e *sharedEnv) eventually(s state.Shared, what string, so func() bool) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.ctx(), e.Within)
	defer cancel()
	hints := e.watch(ctx, s)
	for !so() {
		if _, open := <-hints; !open {
			e.Fatalf("within %s no hint led to this: %s", e.Within, what)
		}
	}
}

var connectedTests = []sharedTest{
	{"FromOpenToClose", func(e *sharedEnv) {
		s := e.shared()
		if !s.Connected() {
			e.Error("not connected after it was opened")
		}
		e.must(s.Close())
		if s.Connected() {
			e.Error("connected after it was closed")
		}
	}},
}
