package zookeeper

import (
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/resources"
)

func isLost(c *contender) bool {
	select {
	case <-c.lost:
		return true
	default:
		return false
	}
}

func TestLockIsLostWhenItsContenderIsDeleted(t *testing.T) {
	t.Parallel()
	s := offlineStore(t)
	key := resources.Key{Kind: resources.KindNode, ID: "0000000001"}
	own, other := s.ownClaim(key, someNode+"/lock"), s.ownContender(namedDir+"/apply")
	s.depart(own.path)
	if !isLost(own.contender) || isLost(other) {
		t.Errorf("lost: %t, the other lock: %t", isLost(own.contender), isLost(other))
	}
}

func TestReleasedLockIsNotLost(t *testing.T) {
	t.Parallel()
	s := offlineStore(t)
	c := s.ownContender(someNode + "/lock")
	c.releasing = true // by a commit in progress
	s.depart(c.path)
	if isLost(c) {
		t.Error("the release of a lock counts as its loss")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locks.end([]*contender{c})
	if len(s.locks.ownContenders) > 0 {
		t.Errorf("%d contenders after the release", len(s.locks.ownContenders))
	}
}

func TestEndOfTheSessionLosesAllLocks(t *testing.T) {
	t.Parallel()
	s := offlineStore(t)
	a, b := s.ownContender(someNode+"/lock"), s.ownContender(namedDir+"/apply")
	s.session.onEvent(zk.Event{Type: zk.EventSession, State: zk.StateExpired})
	if !isLost(a) || !isLost(b) || len(s.locks.orphans) != 2 {
		t.Errorf("lost: %t, %t; %d orphans, want 2: the session may have survived", isLost(a), isLost(b), len(s.locks.orphans))
	}
}

func TestContenderDeletedWithoutConnectionIsLost(t *testing.T) {
	t.Parallel()
	s := offlineStore(t)
	c := s.ownContender(someNode + "/lock")
	s.mu.Lock()
	s.mirror.cache.remove(c.path) // as a full load does
	s.mu.Unlock()
	s.session.onEvent(zk.Event{Type: zk.EventSession, State: zk.StateHasSession})
	s.mirror.caughtUp(1)
	if !isLost(c) {
		t.Error("the lock is held without a contender")
	}
	if !s.session.connection.synced {
		t.Error("the cache is not declared up to date")
	}
}

func TestClaimsOfOthersAreListed(t *testing.T) {
	t.Parallel()
	s := offlineStore(t)
	s.arrive(someNode, nodeText)
	s.arrive(someRequest, zuulsRequest)
	s.ownContender(requestLocks + "/200-0000000001")
	s.arrive(someNode+"/lock/"+somePrefix+"__lock__0000000000", "")
	claimed := s.Claimed()
	if len(claimed) != 1 || !claimed[resources.Key{Kind: resources.KindNode, ID: "0000000001"}] {
		t.Errorf("claimed are %v, want the node", claimed)
	}
}
