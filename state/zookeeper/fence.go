package zookeeper

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// A commit may only change records that no other process has claimed. To become the first in the queue of a lock takes
// two calls, one for the contender and one for the changes. For requests and nodes one call is enough: the same multi
// deletes the lock directory, which ZooKeeper rejects while a contender is in it, makes the changes, and creates the
// directory again. No process ever sees the directory missing, and a process that locks the record after the multi
// reads the changed record.
//
// The lock directories of builds and uploads are not replaced, because Nodepool reads their age.

// canFence reports whether fence can replace the lock directory of a change, which must be empty. Another program may
// keep other znodes in it, and contenders of this process may still exist; then the commit needs a contender.
func canFence(known *cache, c *change, dir string) bool {
	if c.Subject.Kind != resources.KindNode && c.Subject.Kind != resources.KindRequest {
		return false
	}
	return len(known.kids(dir)) == 0
}

// fence adds the operations that keep others out of the lock of a change. It returns errRetry if that has become
// impossible. mu is held.
func (w *write) fence(c *change, contenders []*contender) error {
	switch {
	case c.dir == "":
		return nil
	case !c.fenced:
		if !slices.ContainsFunc(contenders, func(own *contender) bool { return own.dir == c.dir }) {
			return fmt.Errorf("lock %s: %w", c.dir, errRetry)
		}
		return nil
	case !canFence(w.cache, c, c.dir):
		return fmt.Errorf("lock %s: %w", c.dir, errRetry)
	}
	there := w.cache.node(c.dir) != nil
	switch deletes := c.Record == nil; {
	case deletes && there: // deleted with the record
	case deletes && c.Subject.Kind == resources.KindNode: // a new lock directory would block the deletion
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
	w.add(&zk.DeleteRequest{Path: w.session.serverPath(c.dir), Version: -1}, forFence, c.dir, nil)
}

func (w *write) makeLock(c *change) {
	w.add(&zk.CreateRequest{Path: w.session.serverPath(c.dir), Acl: openACL}, forFence, c.dir, nil)
}

// fenceError translates the error of deleting or creating a lock directory.
func fenceError(dir string, err error) error {
	if errors.Is(err, zk.ErrNotEmpty) {
		return fmt.Errorf("another process holds lock %s: %w, %w", dir, state.ErrLocked, state.ErrConflict)
	}
	return fmt.Errorf("%w: %s: %w", errRetry, dir, err)
}
