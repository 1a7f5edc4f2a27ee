package statetest

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// committable returns a record of each kind that a commit can claim and release.
func committable() []resources.Record {
	return []resources.Record{record(resources.KindRequest, 1), record(resources.KindNode, 2)}
}

// commitClaim changes a record and claims it.
func (e *sharedEnv) commitClaim(s state.Shared, entry state.Entry) state.Entry {
	e.Helper()
	entries, err := s.Commit(e.ctx(), state.Op{Record: touched(entry.Record), Revision: entry.Revision, Claim: true})
	e.must(err)
	if entries[0].ClaimLock == nil {
		e.Fatalf("the entry of %s has no claim", entry.Record.Key())
	}
	return entries[0]
}

var committedClaimTests = []sharedTest{
	{"ClaimIsMadeByACommit", func(e *sharedEnv) {
		one, two := e.shared(), e.shared()
		for _, entry := range e.create(one, committable()...) {
			key := entry.Record.Key()
			_ = e.get(two, key)
			entry = e.commitClaim(one, entry)
			if entry.ClaimLock.ID() == "" {
				e.Errorf("the claim of %s has no id", key)
			}
			for name, s := range map[string]state.Shared{"the same handle": one, "another handle": two} {
				if _, _, err := s.Claim(e.ctx(), key); !errors.Is(err, state.ErrLocked) {
					e.Errorf("%s by %s: %v, want ErrLocked", key, name, err)
				}
			}
			if _, err := two.Commit(e.ctx(), state.Op{Record: touched(entry.Record), Revision: entry.Revision}); !errors.Is(err, state.ErrLocked) {
				e.Errorf("%s: %v, want ErrLocked", key, err)
			}
			_, err := one.Commit(e.ctx(), state.Op{Record: touched(entry.Record), Revision: entry.Revision})
			e.must(err)
			e.must(entry.ClaimLock.Unlock(e.ctx()))
			e.claimSoon(two, key)
		}
	}},
	{"ClaimNeedsNoChange", func(e *sharedEnv) {
		s := e.shared()
		for _, entry := range e.create(s, committable()...) {
			entries, err := s.Commit(e.ctx(), state.Op{Record: entry.Record, Revision: entry.Revision, Claim: true})
			e.must(err)
			if entries[0].ClaimLock == nil || entries[0].Revision != entry.Revision {
				e.Errorf("got %+v, want a claim at revision %d", entries[0], entry.Revision)
			}
			if _, err := s.Commit(e.ctx(), state.Op{Record: entry.Record, Revision: entry.Revision, Release: true}); err != nil {
				e.Errorf("release: %v", err)
			}
			e.claim(s, entry.Record.Key())
		}
	}},
	{"ExistingClaimIsKept", func(e *sharedEnv) {
		s := e.shared()
		for _, entry := range e.create(s, committable()...) {
			c, entry := e.claim(s, entry.Record.Key())
			if again := e.commitClaim(s, entry); again.ClaimLock.ID() != c.ID() {
				e.Errorf("a second claim %s, want %s", again.ClaimLock.ID(), c.ID())
			}
		}
	}},
	{"ClaimIsReleasedByACommit", func(e *sharedEnv) {
		one, two := e.shared(), e.shared()
		for _, entry := range e.create(one, committable()...) {
			key := entry.Record.Key()
			_ = e.get(two, key)
			entry = e.commitClaim(one, entry)
			entries, err := one.Commit(e.ctx(), state.Op{Record: touched(entry.Record), Revision: entry.Revision, Release: true})
			e.must(err)
			select {
			case <-entry.ClaimLock.Lost():
				e.Error("Lost was closed although Unlock was called")
			default:
			}
			_, got := e.claimSoon(two, key)
			if diff := cmp.Diff(entries[0], got); diff != "" {
				e.Errorf("(-committed +claimed):\n%s", diff)
			}
			e.must(entry.ClaimLock.Unlock(e.ctx()))
			if _, _, err := one.Claim(e.ctx(), key); !errors.Is(err, state.ErrLocked) {
				e.Errorf("Unlock after the release took another's claim: %v", err)
			}
		}
	}},
	{"RejectedCommitClaimsAndReleasesNothing", func(e *sharedEnv) {
		one, two := e.shared(), e.shared()
		for _, entry := range e.create(one, committable()...) {
			key := entry.Record.Key()
			_, err := one.Commit(e.ctx(), state.Op{Record: touched(entry.Record), Revision: entry.Revision + 1000, Claim: true})
			if !errors.Is(err, state.ErrConflict) {
				e.Errorf("%v, want ErrConflict", err)
			}
			c, entry := e.claim(two, key) // no handle has the claim
			e.must(c.Unlock(e.ctx()))
			e.eventually(one, "the claim was released", func() bool { return !one.Claimed()[key] })
			entry = e.commitClaim(one, entry)
			_, err = one.Commit(e.ctx(), state.Op{Record: touched(entry.Record), Revision: entry.Revision + 1000, Release: true})
			if !errors.Is(err, state.ErrConflict) {
				e.Errorf("%v, want ErrConflict", err)
			}
			if _, _, err := two.Claim(e.ctx(), key); !errors.Is(err, state.ErrLocked) {
				e.Errorf("%v, want ErrLocked", err)
			}
		}
	}},
	{"ReleaseWithoutAClaimDoesNothing", func(e *sharedEnv) {
		one, two := e.shared(), e.shared()
		for _, entry := range e.create(one, committable()...) {
			entries, err := one.Commit(e.ctx(), state.Op{Record: touched(entry.Record), Revision: entry.Revision, Release: true})
			e.must(err)
			e.claimSoon(two, entry.Record.Key())
			_, err = one.Commit(e.ctx(), state.Op{Record: touched(entries[0].Record), Revision: entries[0].Revision, Release: true})
			if !errors.Is(err, state.ErrLocked) {
				e.Errorf("%v, want ErrLocked", err)
			}
		}
	}},
	{"ClaimIsTakenByOneOfMany", committedClaimGoesToOne},
	{"LostClaimIsNotReleased", func(e *sharedEnv) {
		s := e.shared()
		for _, entry := range e.create(s, committable()...) {
			entry = e.commitClaim(s, entry)
			e.Steal(e.T, s, entry.Record.Key().String(), entry.ClaimLock)
			if _, err := s.Commit(e.ctx(), state.Op{Record: touched(entry.Record), Revision: entry.Revision, Release: true}); !errors.Is(err, state.ErrLost) {
				e.Errorf("%v, want ErrLost", err)
			}
			e.closes(entry.ClaimLock.Lost(), "a commit detected the loss of the claim")
		}
	}},
	{"NewBuildOrUploadIsClaimedByItsCommit", func(e *sharedEnv) {
		one, two := e.shared(), e.shared()
		build := record(resources.KindBuild, 4).(*resources.Build)
		build.State = resources.StateBuilding
		upload := &resources.Upload{Image: build.Image, Build: build.ID, Provider: "cloud", State: resources.StateUploading}
		for _, made := range []resources.Record{build, upload} {
			entries, err := one.Commit(e.ctx(), state.Op{Record: made, Claim: true})
			e.must(err)
			key := entries[0].Record.Key()
			if entries[0].ClaimLock == nil {
				e.Fatalf("the entry of %s has no claim", key)
			}
			for name, s := range map[string]state.Shared{"the same handle": one, "another handle": two} {
				if _, _, err := s.Claim(e.ctx(), key); !errors.Is(err, state.ErrLocked) {
					e.Errorf("%s by %s: %v, want ErrLocked", key, name, err)
				}
				second := state.WithID(made, "")
				if b, ok := second.(*resources.Build); ok {
					b.ID = record(resources.KindBuild, 5).Key().ID
				}
				if _, err := s.Commit(e.ctx(), state.Op{Record: second, Claim: true}); !errors.Is(err, state.ErrLocked) || !errors.Is(err, state.ErrConflict) {
					e.Errorf("a second %s by %s: %v, want ErrLocked and ErrConflict", key.Kind, name, err)
				}
			}
			defer func() {
				e.must(entries[0].ClaimLock.Unlock(e.ctx()))
				e.claimSoon(two, key)
			}()
		}
	}},
	{"NeedsAnExistingNodeOrRequestOrANewBuildOrUpload", func(e *sharedEnv) {
		s := e.shared()
		node := e.create(s, Node(1))[0]
		build := e.create(s, record(resources.KindBuild, 4))[0]
		for name, op := range map[string]state.Op{
			"an old build":   {Record: build.Record, Revision: build.Revision, Claim: true},
			"of a build":     {Record: build.Record, Revision: build.Revision, Release: true},
			"a new node":     {Record: Node(2), Claim: true},
			"a deleted node": {Key: node.Record.Key(), Revision: node.Revision, Claim: true},
			"both":           {Record: node.Record, Revision: node.Revision, Claim: true, Release: true},
			"any revision":   {Record: node.Record, Revision: node.Revision, Force: true, Claim: true},
		} {
			var refusal state.InvalidError
			if _, err := s.Commit(e.ctx(), op); !errors.As(err, &refusal) {
				e.Errorf("%s: %v, want an error", name, err)
			}
		}
	}},
}

// committedClaimGoesToOne claims one record by commits from several handles repeatedly. At each revision one handle
// gets the claim, and is its only owner until it releases it.
func committedClaimGoesToOne(e *sharedEnv) {
	const handles, rounds = 4, 10
	key := e.create(e.shared(), Node(1))[0].Record.Key()
	var having, got atomic.Int64
	var wg sync.WaitGroup
	for range handles {
		s := e.shared()
		wg.Go(func() {
			for range rounds {
				entry, err := s.Get(e.ctx(), key)
				if err == nil {
					var entries []state.Entry
					if entries, err = s.Commit(e.ctx(), state.Op{Record: touched(entry.Record), Revision: entry.Revision, Claim: true}); err == nil {
						entry = entries[0]
					}
				}
				if errors.Is(err, state.ErrConflict) {
					continue
				}
				if err == nil {
					got.Add(1)
					if n := having.Add(1); n != 1 {
						e.Errorf("%d handles have the claim", n)
					}
					having.Add(-1)
					_, err = s.Commit(e.ctx(), state.Op{Record: touched(entry.Record), Revision: entry.Revision, Release: true})
				}
				if err != nil {
					e.Errorf("claim and release: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got.Load() == 0 {
		e.Error("no handle ever got the claim")
	}
}
