package zookeeper

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// A commit may only change what nobody has claimed. To be the first in the queue of a lock takes two calls, one for the
// contender and one for the changes. With requests and nodes one is enough: the same multi removes the directory of the
// lock, which ZooKeeper refuses while anybody is in it, makes the changes, and makes the directory again. Nobody ever
// finds it missing, and whoever comes after the multi reads what it has changed.
//
// The locks of builds and uploads are left as they are: Nodepool reads the age of their directories.

// canBar says whether a change can be made in that way. Others may keep there what is no contender, and contenders of our
// own may not have gone yet: then a contender it must be. s.mu is held.
func (s *Store) canBar(c *change, dir string) bool {
	if c.key.Kind != resources.KindNode && c.key.Kind != resources.KindRequest {
		return false
	}
	return len(kidsOf(s.cache.nodes[dir])) == 0
}

// bar adds what keeps others out of the lock of a change, or finds that it cannot be done any more. Store.mu is held.
func (w *write) bar(c *change, contenders []*contender) error {
	switch {
	case c.dir == "":
		return nil
	case !c.barred:
		if !slices.ContainsFunc(contenders, func(own *contender) bool { return own.dir == c.dir }) {
			return fmt.Errorf("lock %s: %w", c.dir, errAgain)
		}
		return nil
	case !w.store.canBar(c, c.dir):
		return fmt.Errorf("lock %s: %w", c.dir, errAgain)
	}
	there := w.store.cache.nodes[c.dir] != nil
	switch deletes := c.op.Record == nil; {
	case deletes && there: // goes with the record
	case deletes && c.key.Kind == resources.KindNode: // it would be in the way of the deletion
	case deletes:
		w.makeLock(c)
		w.removeLock(c)
	case there:
		w.removeLock(c)
		w.makeLock(c)
	default:
		w.makeLock(c)
	}
	return nil
}

func (w *write) removeLock(c *change) {
	w.add(&zk.DeleteRequest{Path: w.store.at(c.dir), Version: -1}, forBar, c.dir, nil)
}

func (w *write) makeLock(c *change) {
	w.add(&zk.CreateRequest{Path: w.store.at(c.dir), Acl: openACL}, forBar, c.dir, nil)
}

// barRefused says what it means that a directory could not be removed or made.
func barRefused(dir string, err error) error {
	if errors.Is(err, zk.ErrNotEmpty) {
		return fmt.Errorf("lock %s is held by another: %w, %w", dir, state.ErrLocked, state.ErrConflict)
	}
	return fmt.Errorf("%w: %s: %w", errAgain, dir, err)
}
