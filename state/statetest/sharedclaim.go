package statetest

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

var claimTests = []sharedTest{
	{"ReturnsTheRecord", func(e *sharedEnv) {
		s := e.shared()
		for _, want := range e.create(s, claimable()...) {
			c, got := e.claim(s, want.Record.Key())
			if diff := cmp.Diff(want, got); diff != "" {
				e.Errorf("(-want +got):\n%s", diff)
			}
			if c.ID() == "" {
				e.Errorf("the claim of %s has no id", want.Record.Key())
			}
		}
	}},
	{"ReturnsTheCurrentRecord", func(e *sharedEnv) {
		one, two := e.shared(), e.shared()
		now := e.create(one, Node(1))[0]
		for range 20 { // a claim must return the newest acknowledged revision
			e.eventually(one, "the claim was released", func() bool {
				entries, err := one.Commit(e.ctx(), state.Op{Record: touched(now.Record), Revision: now.Revision})
				if err == nil {
					now = entries[0]
				} else if !errors.Is(err, state.ErrLocked) {
					e.Fatalf("Commit: %v", err)
				}
				return err == nil
			})
			c, got := e.claimSoon(two, now.Record.Key())
			if got.Revision != now.Revision {
				e.Fatalf("revision %d, want %d", got.Revision, now.Revision)
			}
			e.must(c.Unlock(e.ctx()))
		}
	}},
	{"IsExclusive", func(e *sharedEnv) {
		one, two := e.shared(), e.shared()
		for _, entry := range e.create(one, claimable()...) {
			key := entry.Record.Key()
			_ = e.get(two, key) // handle two knows the record
			c, _ := e.claim(one, key)
			for name, s := range map[string]state.Shared{"the same handle": one, "another handle": two} {
				start := time.Now()
				if other, _, err := s.Claim(e.ctx(), key); other != nil || !errors.Is(err, state.ErrLocked) {
					e.Errorf("%s by %s: %v, %v; want ErrLocked", key, name, other, err)
				}
				if took := time.Since(start); took > e.Within {
					e.Errorf("%s by %s: Claim waited for %s", key, name, took)
				}
			}
			e.must(c.Unlock(e.ctx()))
			e.claimSoon(two, key)
		}
	}},
	{"IsTakenByOneOfMany", func(e *sharedEnv) {
		const handles = 5
		key := e.create(e.shared(), Node(1))[0].Record.Key()
		var won atomic.Int64
		var wg sync.WaitGroup
		for range handles {
			s := e.shared()
			wg.Go(func() {
				switch _, _, err := s.Claim(e.ctx(), key); {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, state.ErrLocked):
					e.Errorf("Claim: %v", err)
				}
			})
		}
		wg.Wait()
		if won.Load() > 1 { // zero is possible: each may have found another ahead of it
			e.Errorf("%d of %d have it", won.Load(), handles)
		}
	}},
	{"OfADeletedRecordIsNotFound", func(e *sharedEnv) {
		one, two := e.shared(), e.shared()
		for _, entry := range e.create(one, claimable()...) {
			key := entry.Record.Key()
			_ = e.get(two, key)
			_, err := one.Commit(e.ctx(), state.Op{Key: key, Revision: entry.Revision})
			e.must(err)
			// handle two has not synced, so it may still find the claim under which the record was deleted
			e.eventually(two, "the record is gone", func() bool {
				_, _, err := two.Claim(e.ctx(), key)
				if !errors.Is(err, state.ErrNotFound) && !errors.Is(err, state.ErrLocked) {
					e.Fatalf("%s: %v, want ErrNotFound", key, err)
				}
				return errors.Is(err, state.ErrNotFound)
			})
		}
		if _, _, err := one.Claim(e.ctx(), absentKey(resources.KindNode)); !errors.Is(err, state.ErrNotFound) {
			e.Errorf("unknown record: %v, want ErrNotFound", err)
		}
	}},
	{"AllowsItsHandleToCommit", func(e *sharedEnv) {
		s := e.shared()
		for _, entry := range e.create(s, claimable()...) {
			key := entry.Record.Key()
			c, entry := e.claim(s, key)
			for range 3 {
				entries, err := s.Commit(e.ctx(), state.Op{Record: touched(entry.Record), Revision: entry.Revision})
				e.must(err)
				entry = entries[0]
			}
			_, err := s.Commit(e.ctx(), state.Op{Key: key, Revision: entry.Revision})
			e.must(err)
			e.must(c.Unlock(e.ctx()))
		}
	}},
	{"SurvivesARejectedCommit", func(e *sharedEnv) {
		one, two := e.shared(), e.shared()
		entry := e.create(one, Node(1))[0]
		e.claim(one, entry.Record.Key())
		if _, err := one.Commit(e.ctx(), state.Op{Record: touched(entry.Record), Revision: entry.Revision + 1000}); !errors.Is(err, state.ErrConflict) {
			e.Errorf("%v, want ErrConflict", err)
		}
		if _, _, err := two.Claim(e.ctx(), entry.Record.Key()); !errors.Is(err, state.ErrLocked) {
			e.Errorf("%v, want ErrLocked", err)
		}
		_, err := one.Commit(e.ctx(), state.Op{Record: touched(entry.Record), Revision: entry.Revision})
		e.must(err)
	}},
	{"PreventsCommitsOfOthers", claimExcludesCommits},
	{"SurvivesCommitsOfOthers", claimHolds},
	{"OfACommitEndsWithTheCommit", func(e *sharedEnv) {
		one, two := e.shared(), e.shared()
		for _, entry := range e.create(one, claimable()...) {
			_, err := one.Commit(e.ctx(), state.Op{Record: touched(entry.Record), Revision: entry.Revision})
			e.must(err)
			e.claimSoon(two, entry.Record.Key())
		}
	}},
	{"EndsWithUnlockOnce", func(e *sharedEnv) {
		one, two := e.shared(), e.shared()
		key := e.create(one, Node(1))[0].Record.Key()
		_ = e.get(two, key)
		c, _ := e.claim(one, key)
		e.must(c.Unlock(e.ctx()))
		select {
		case <-c.Lost():
			e.Error("Lost was closed although Unlock was called")
		default:
		}
		e.claimSoon(two, key)
		e.must(c.Unlock(e.ctx()))
		if _, _, err := one.Claim(e.ctx(), key); !errors.Is(err, state.ErrLocked) {
			e.Errorf("a second Unlock took another's claim: %v", err)
		}
	}},
	{"EndsWithItsStore", func(e *sharedEnv) {
		one, two := e.shared(), e.shared()
		key := e.create(one, Node(1))[0].Record.Key()
		c, _ := e.claim(one, key)
		e.must(one.Close())
		e.closes(c.Lost(), "the store was closed")
		e.must(c.Unlock(e.ctx()))
		e.claimSoon(two, key)
	}},
}

// claimExcludesCommits expects that another handle cannot write a claimed record by any op, at any position of a
// commit.
func claimExcludesCommits(e *sharedEnv) {
	one, two := e.shared(), e.shared()
	for _, entry := range e.create(one, claimable()...) {
		key := entry.Record.Key()
		_ = e.get(two, key)
		e.claim(one, key)
		before := e.list(two)
		for name, op := range map[string]state.Op{
			"put":          {Record: touched(entry.Record), Revision: entry.Revision},
			"forced put":   {Record: touched(entry.Record), Force: true},
			"delete":       {Key: key, Revision: entry.Revision},
			"force delete": {Key: key, Force: true},
		} {
			for _, ops := range [][]state.Op{{op}, {{Record: Node(7)}, op}} {
				if _, err := two.Commit(e.ctx(), ops...); !errors.Is(err, state.ErrLocked) || !errors.Is(err, state.ErrConflict) {
					e.Errorf("%s of %s: %v, want ErrLocked and ErrConflict", name, key, err)
				}
			}
		}
		if diff := cmp.Diff(before, e.list(two)); diff != "" {
			e.Errorf("something was written (-before +after):\n%s", diff)
		}
	}
}

// claimHolds commits without a claim from one handle in a loop, while another handle claims the record and commits the
// claimed revision. The record must not change between the claim and the commit.
func claimHolds(e *sharedEnv) {
	one, two := e.shared(), e.shared()
	key := e.create(one, Node(1))[0].Record.Key()
	_ = e.get(two, key)
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-ended:
				return
			default:
			}
			entry, err := one.Get(e.ctx(), key)
			if err == nil {
				_, err = one.Commit(e.ctx(), state.Op{Record: touched(entry.Record), Revision: entry.Revision})
			}
			if err != nil && !errors.Is(err, state.ErrConflict) {
				e.Errorf("commit without a claim: %v", err)
				return
			}
		}
	})
	for range 15 {
		c, entry := e.claimSoon(two, key)
		if _, err := two.Commit(e.ctx(), state.Op{Record: touched(entry.Record), Revision: entry.Revision}); err != nil {
			e.Errorf("commit under the claim: %v", err)
		}
		e.must(c.Unlock(e.ctx()))
	}
	close(ended)
	wg.Wait()
}

var lostClaimTests = []sharedTest{
	{"IsReported", func(e *sharedEnv) {
		s := e.shared()
		for _, entry := range e.create(s, claimable()...) {
			c, _ := e.claim(s, entry.Record.Key())
			e.Steal(e.T, s, entry.Record.Key().String(), c)
			e.closes(c.Lost(), "the claim was removed")
		}
	}},
	{"PreventsWrites", func(e *sharedEnv) {
		s := e.shared()
		for _, entry := range e.create(s, claimable()...) {
			key := entry.Record.Key()
			c, entry := e.claim(s, key)
			e.Steal(e.T, s, key.String(), c)
			// The test does not wait for Lost: Commit itself must detect the loss.
			for range 2 {
				for name, op := range map[string]state.Op{
					"put":        {Record: touched(entry.Record), Revision: entry.Revision},
					"forced put": {Record: touched(entry.Record), Force: true},
					"delete":     {Key: key, Revision: entry.Revision},
				} {
					if _, err := s.Commit(e.ctx(), state.Op{Record: Node(9)}, op); !errors.Is(err, state.ErrLost) {
						e.Errorf("%s of %s: %v, want ErrLost", name, key, err)
					}
				}
			}
			e.closes(c.Lost(), "a commit detected the loss of the claim")
			if diff := cmp.Diff(entry, e.get(s, key)); diff != "" {
				e.Errorf("something was written after the claim was lost (-want +got):\n%s", diff)
			}
		}
		if got := e.list(s, resources.KindNode); len(got) != 1 {
			e.Errorf("%d nodes, want 1: a part of a commit was done", len(got))
		}
	}},
	{"AffectsOnlyItsRecord", func(e *sharedEnv) {
		s := e.shared()
		entries := e.create(s, Node(1), Node(2))
		c, _ := e.claim(s, entries[0].Record.Key())
		e.Steal(e.T, s, entries[0].Record.Key().String(), c)
		_, err := s.Commit(e.ctx(), state.Op{Record: touched(entries[1].Record), Revision: entries[1].Revision})
		e.must(err)
	}},
	{"AllowsAnotherClaim", func(e *sharedEnv) {
		one, two := e.shared(), e.shared()
		key := e.create(one, Node(1))[0].Record.Key()
		c, _ := e.claim(one, key)
		e.Steal(e.T, one, key.String(), c)
		e.claimSoon(two, key)
		e.closes(c.Lost(), "another has it")
		e.must(c.Unlock(e.ctx()))
		if _, _, err := one.Claim(e.ctx(), key); !errors.Is(err, state.ErrLocked) {
			e.Errorf("Unlock of a lost claim took it from its new holder: %v", err)
		}
	}},
	{"EndsAfterUnlock", func(e *sharedEnv) {
		s := e.shared()
		entry := e.create(s, Node(1))[0]
		c, _ := e.claim(s, entry.Record.Key())
		e.Steal(e.T, s, entry.Record.Key().String(), c)
		e.closes(c.Lost(), "the claim was removed")
		e.must(c.Unlock(e.ctx()))
		e.claim(s, entry.Record.Key())
		_, err := s.Commit(e.ctx(), state.Op{Record: touched(entry.Record), Revision: entry.Revision})
		e.must(err)
	}},
}

var claimedTests = []sharedTest{
	{"ListsClaimsOfOthers", func(e *sharedEnv) {
		one, two := e.shared(), e.shared()
		want := map[resources.Key]bool{}
		var claims []state.Lock
		for _, entry := range e.create(one, claimable()...) {
			c, _ := e.claim(one, entry.Record.Key())
			claims, want[entry.Record.Key()] = append(claims, c), true
		}
		e.eventually(two, "all claims are known", func() bool { return cmp.Equal(want, two.Claimed()) })
		if own := one.Claimed(); len(own) > 0 {
			e.Errorf("own claims are listed: %v", own)
		}
		for _, c := range claims {
			e.must(c.Unlock(e.ctx()))
		}
		e.eventually(two, "no claim is known", func() bool { return len(two.Claimed()) == 0 })
	}},
	{"EndsWithTheOtherStore", func(e *sharedEnv) {
		one, two := e.shared(), e.shared()
		key := e.create(one, Node(1))[0].Record.Key()
		e.claim(one, key)
		e.eventually(two, "the claim is known", func() bool { return two.Claimed()[key] })
		e.must(one.Close())
		e.eventually(two, "the claim is gone", func() bool { return len(two.Claimed()) == 0 })
	}},
	{"IsEmptyAfterCommits", func(e *sharedEnv) {
		one, two := e.shared(), e.shared()
		for _, entry := range e.create(one, claimable()...) {
			_, err := one.Commit(e.ctx(), state.Op{Record: touched(entry.Record), Revision: entry.Revision})
			e.must(err)
		}
		e.list(two)
		e.eventually(two, "no claim is known", func() bool { return len(two.Claimed()) == 0 })
	}},
}
