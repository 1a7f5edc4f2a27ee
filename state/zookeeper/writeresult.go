package zookeeper

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/state"
)

// refused translates the rejection of the operation with index i.
func (w *write) refused(i int, err error) error {
	if i < 0 {
		return err
	}
	switch w.why[i] {
	case forLock, forClaim:
		c := w.locked[i]
		if w.why[i] == forLock && c.released { // unlocked while this write was on its way
			return fmt.Errorf("%w: lock %s was released: %w", errRetry, w.what[i], err)
		}
		if c.markLost(); errors.Is(err, zk.ErrNoNode) {
			return fmt.Errorf("lock %s: %w", w.what[i], state.ErrLost)
		}
	case forUnlock:
		if errors.Is(err, zk.ErrNoNode) {
			return fmt.Errorf("lock %s: %w", w.what[i], state.ErrLost)
		}
	case forFence:
		return fenceError(w.session.serverPath(w.what[i]), err)
	case forSerial:
		return fmt.Errorf("%s, which npctl created, no longer exists; restart npctl: %w", w.session.serverPath(serialAt), err)
	case forRecord, forSource:
		if c := w.of[i]; !c.Force && isConflict(err) {
			return fmt.Errorf("%s: %w: %w", c.Subject, state.ErrConflict, err)
		}
	}
	if isConflict(err) || errors.Is(err, zk.ErrNotEmpty) {
		return fmt.Errorf("%w: %s: %w", errRetry, w.what[i], err)
	}
	return err
}

func isConflict(err error) bool {
	return errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNodeExists)
}

// keepContenders restores the contenders that a failed write should have deleted and drops the ones to be created. If
// ZooKeeper rejected no operation, they may exist after all, and the upkeep deletes them as soon as they appear.
func (w *write) keepContenders(contenders []*contender, failed int) {
	for _, c := range w.entries {
		if failed < 0 {
			w.locks.orphan(c.contender)
		}
		w.locks.forget([]*contender{c.contender})
	}
	for _, c := range slices.Concat(w.over, contenders) {
		if c.releasing = false; !c.exists {
			c.markLost()
		}
	}
}

// done stores the written records in the cache. All of them have the zxid of the multi, which the serial's stat
// contains.
func (w *write) done(results []zk.MultiResponse, contenders []*contender) {
	w.locks.end(slices.DeleteFunc(slices.Concat(w.over, contenders), w.keeps))
	for _, c := range w.entries {
		w.locks.noteMade(c.contender, results[c.op])
	}
	for _, c := range w.claims {
		w.locks.claims[c.key] = c
	}
	serial := results[len(results)-1].Stat
	for i, c := range w.of {
		if c != nil && w.why[i] != forSource {
			w.result(c, results[i], serial)
		}
	}
}

// keeps reports whether a contender belongs to a claim that the write makes.
func (w *write) keeps(c *contender) bool {
	return slices.ContainsFunc(w.claims, func(made *claim) bool { return made.contender == c })
}

// result stores one written record in the cache. One event is its own; if there were more, the feed reads the znode.
func (w *write) result(c *change, r zk.MultiResponse, serial *zk.Stat) {
	if c.same {
		c.result = w.cache.entryOf(c.old)
		return
	}
	at := c.at
	got := content{data: c.data, version: 0, mzxid: serial.Mzxid, created: serial.Mtime}
	if r.String != "" {
		at = w.session.localPath(r.String)
	} else if r.Stat != nil {
		got.version, got.created = r.Stat.Version, r.Stat.Ctime
	}
	if w.gone[at] {
		return
	}
	got = decode(parsePath(at), got)
	if got.record != nil {
		c.result = state.Entry{Record: w.cache.withResolvedIDs(clone(got.record)), Revision: state.Revision(got.mzxid)}
	}
	if w.own.gone[at] {
		return
	}
	w.cache.put(at, got)
	if w.own.events[at] <= 1 {
		delete(w.cache.dirty, at)
	}
}
