package zookeeper

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// locks are the locks of this process: the contenders in the queues of ZooKeeper, and the claims and named locks that
// they stand for.
type locks struct {
	session    *session
	mirror     *mirror
	log        *slog.Logger
	host       string
	version    string          // of npctl
	upkeepWake chan<- struct{} // an orphan can be deleted

	mu            *sync.Mutex // guards the fields below; see Store
	cache         *cache
	ownContenders map[string]*contender // by prefix
	orphans       map[string]orphan     // obsolete contenders of this process, by prefix
	claims        map[resources.Key]*claim
	named         map[*lock]struct{}
}

func newLocks(s *session, m *mirror, known *cache, opts Options, upkeepWake chan<- struct{}) *locks {
	return &locks{session: s, mirror: m, log: opts.Log, host: opts.Host, version: opts.Version, upkeepWake: upkeepWake,
		mu: s.mu, cache: known, ownContenders: map[string]*contender{}, orphans: map[string]orphan{},
		claims: map[resources.Key]*claim{}, named: map[*lock]struct{}{}}
}

// onChange applies an event before the cache does. mu is held.
func (ls *locks) onChange(kind zk.EventType, at string) {
	if kind == zk.EventNodeDeleted {
		ls.onGone(at)
	} else if _, orphan := ls.orphans[prefixOf(nameOf(at))]; orphan {
		hint(ls.upkeepWake)
	}
}

// onGone marks a lock as lost if the deleted znode was its contender and this process did not delete it. mu is held.
func (ls *locks) onGone(at string) {
	prefix := prefixOf(nameOf(at))
	if c := ls.ownContenders[prefix]; c != nil && c.dir == parentOf(at) {
		c.exists = false
		if !c.releasing && c.markLost() && !ls.session.isClosed() {
			ls.log.Warn("lock in ZooKeeper was removed", "lock", c.dir)
		}
	}
	delete(ls.orphans, prefix)
}

// checkOwnContenders handles contenders of this process that were deleted while there was no connection. mu is held.
func (ls *locks) checkOwnContenders() {
	for _, c := range ls.ownContenders {
		if c.exists && ls.cache.node(c.path) == nil {
			ls.onGone(c.path)
		}
	}
}

// loseAll declares all locks lost. If the session survives, the upkeep deletes their contenders. mu is held.
func (ls *locks) loseAll(why string) {
	n := 0
	for _, c := range ls.ownContenders {
		if c.markLost() {
			n++
		}
		ls.orphan(c)
	}
	if n > 0 && !ls.session.isClosed() {
		ls.log.Warn("locks in ZooKeeper lost", "locks", n, "why", why)
	}
	ls.mirror.hintAll()
}

// removeOrphans deletes obsolete contenders of this process. It forgets contenders that have not appeared within two
// session timeouts, because they were never created.
func (ls *locks) removeOrphans(ctx context.Context) error {
	ls.mu.Lock()
	var ops []any
	for prefix, o := range ls.orphans {
		found := false
		for name := range ls.cache.queues[o.dir] {
			if prefixOf(name) == prefix {
				found = true
				ops = append(ops, &zk.DeleteRequest{Path: ls.session.serverPath(o.dir + "/" + name), Version: -1})
			}
		}
		if !found && ls.ownContenders[prefix] == nil && time.Since(o.since) > 2*ls.session.sessionTimeout() {
			delete(ls.orphans, prefix)
		}
	}
	ls.mu.Unlock()
	if len(ops) == 0 {
		return nil
	}
	return ls.session.deleteEach(ctx, ops)
}

// claimIn returns a claim with that lock directory, or nil. mu is held.
func (ls *locks) claimIn(dir string) *claim {
	for _, c := range ls.claims {
		if c.dir == dir {
			return c
		}
	}
	return nil
}

// ownAt returns the contender of this process at a path, or nil. mu is held.
func (ls *locks) ownAt(at string) *contender {
	if c := ls.ownContenders[prefixOf(nameOf(at))]; c != nil && c.dir == parentOf(at) {
		return c
	}
	return nil
}

// end drops contenders that ZooKeeper has deleted, with their claims. mu is held.
func (ls *locks) end(contenders []*contender) {
	for _, c := range contenders {
		c.released, c.exists = true, false
		delete(ls.ownContenders, c.prefix)
	}
	maps.DeleteFunc(ls.claims, func(_ resources.Key, c *claim) bool { return slices.Contains(contenders, c.contender) })
}

// claimedDir reports whether this process holds a claim in the lock directory. mu is held.
func (ls *locks) claimedDir(dir string) bool {
	for _, c := range ls.claims {
		if c.dir == dir && !c.lostClosed {
			return true
		}
	}
	return false
}

// withClaim returns the entry of a change, with the claim if the change requested one.
func (ls *locks) withClaim(c *change) state.Entry {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	entry := c.result
	if own := ls.claims[c.key()]; c.Claim && own != nil {
		entry.ClaimLock = own
	}
	return entry
}

// heldLocks returns state.ErrLost while a lost named lock has not been unlocked.
func (ls *locks) heldLocks() error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for l := range ls.named {
		if l.lostClosed {
			return fmt.Errorf("lock %s: %w", l.name, state.ErrLost)
		}
	}
	return nil
}
