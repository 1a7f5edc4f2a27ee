package statetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// Shared runs the suite of state.Shared, the tests side by side. Its handles are a state.Shared each, and Get and List of
// the handles that New makes show what others have committed before, as in Run; what Claimed, Changes and Peers tell may
// come later. Steal also takes claims away: their name is the key of the record, as text.
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

// sharedTest is one sentence of the contract.
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

// claimable are records of each kind that can be claimed.
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

// claimSoon claims what another has just given back, which may not be known yet.
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

// eventually looks again at each hint, as those who use a store do, until something is so.
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
