package zookeeper

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	upkeepEvery = time.Minute
	// requestLockAge is how long the lock directory of a deleted request remains: a client that has not noticed the
	// deletion may be about to use it.
	requestLockAge = 8 * time.Hour
	// emptyAge is how long a record may stay without data: a client may be about to write it.
	emptyAge    = 10 * time.Minute
	maxRemovals = 500 // per round
)

// upkeep runs periodic work.
type upkeep struct {
	session  *session
	mirror   *mirror
	locks    *locks
	presence *presence
	log      *slog.Logger
	now      func() time.Time
	wake     chan struct{}

	mu            *sync.Mutex // guards the fields below; see Store
	cache         *cache
	staleLockDirs map[string]int64 // lock directories of deleted requests; since when, in milliseconds since 1970
}

// run works until ctx is done: it deletes leftover contenders, registers again after a lost session, and deletes lock
// directories of deleted requests and records without data.
func (u *upkeep) run(ctx context.Context) {
	tick := time.NewTicker(upkeepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-u.wake:
		case <-tick.C:
		}
		if !u.session.connected() || u.session.readOnly {
			continue
		}
		if err := u.tidy(ctx); err != nil && !u.session.isClosed() {
			u.log.Debug("upkeep of ZooKeeper was interrupted", "error", err)
			time.AfterFunc(readPause, func() { hint(u.wake) })
		}
	}
}

// tidy runs one round.
func (u *upkeep) tidy(ctx context.Context) error {
	if err := u.locks.removeOrphans(ctx); err != nil {
		return err
	}
	if err := u.presence.reregister(ctx); err != nil {
		return err
	}
	if err := u.removeRequestLocks(ctx); err != nil {
		return err
	}
	return u.removeEmpty(ctx)
}

// removeRequestLocks deletes lock directories that have outlived their requests.
func (u *upkeep) removeRequestLocks(ctx context.Context) error {
	unknown := u.noteStale()
	for _, dir := range unknown {
		_, stat, err := u.session.get(ctx, dir)
		if ignore(err, zk.ErrNoNode) != nil {
			return err
		}
		if err == nil {
			u.mu.Lock()
			u.staleLockDirs[dir] = stat.Ctime
			u.mu.Unlock()
		}
	}
	for _, dir := range u.overdue() {
		_, _, err := u.session.multi(ctx, "remove "+dir, []any{&zk.DeleteRequest{Path: u.session.serverPath(dir), Version: -1}})
		if ignore(err, zk.ErrNoNode, zk.ErrNotEmpty) != nil {
			return err
		}
	}
	return nil
}

// noteStale records the directories without a request and returns those with an unknown age. The age of a directory
// that appeared during this session counts from now.
func (u *upkeep) noteStale() (unknown []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.now().UnixMilli()
	for id := range u.cache.kids(requestLocks) {
		dir := requestLocks + "/" + id
		_, noted := u.staleLockDirs[dir]
		switch {
		case u.cache.node(requestsDir+"/"+id) != nil:
			delete(u.staleLockDirs, dir)
		case noted:
		case u.cache.node(dir).knownSince > u.mirror.loadedAt:
			u.staleLockDirs[dir] = now
		case len(unknown) < maxRemovals:
			unknown = append(unknown, dir)
		}
	}
	return unknown
}

// overdue lists directories that are old enough and empty, and forgets deleted ones.
func (u *upkeep) overdue() (dirs []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	before := u.now().Add(-requestLockAge).UnixMilli()
	for dir, since := range u.staleLockDirs {
		switch z := u.cache.node(dir); {
		case z == nil:
			delete(u.staleLockDirs, dir)
		case since <= before && len(z.children) == 0 && len(dirs) < maxRemovals:
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// removeEmpty deletes records without data. A client that dies between creating a znode and writing it leaves one, and
// so does a lock that is created in a record's directory after the record was deleted.
func (u *upkeep) removeEmpty(ctx context.Context) error {
	for _, at := range u.empty() {
		ops := u.emptyOps(at)
		if len(ops) == 0 {
			continue
		}
		_, _, err := u.session.multi(ctx, "remove "+at, ops)
		if err == nil {
			u.log.Info("removed a record without data from ZooKeeper", "znode", at)
		}
		if ignore(err, zk.ErrNoNode, zk.ErrNotEmpty, zk.ErrBadVersion) != nil {
			return err
		}
	}
	return nil
}

// empty lists records without data that are older than emptyAge.
func (u *upkeep) empty() (paths []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	before := u.now().Add(-emptyAge).UnixMilli()
	paths = u.cache.emptyRecords(before)
	paths = paths[:min(len(paths), maxRemovals)]
	slices.Sort(paths)
	return paths
}

// emptyOps returns the deletions of a record without data and its descendants. It returns none if a process has locked
// the record, if the record has data by now, or if it is a build that still has uploads.
func (u *upkeep) emptyOps(at string) (ops []any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	z := u.cache.node(at)
	if z == nil || u.cache.isDirty(at) || len(z.data) > 0 || u.mirror.inOwnWrite(at) {
		return nil
	}
	for _, below := range u.cache.subtree(at) {
		version := int32(-1)
		switch p := u.cache.node(below).ref; {
		case below == at:
			version = z.version
		case p.role == roleContender || p.role == roleRecord:
			return nil
		}
		ops = append(ops, &zk.DeleteRequest{Path: u.session.serverPath(below), Version: version})
	}
	return ops
}
