package zookeeper

import (
	"context"
	"slices"
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

// upkeep runs periodic work: it deletes leftover contenders, registers again after a lost session, and deletes lock
// directories of deleted requests and records without data.
func (s *Store) upkeep() {
	tick := time.NewTicker(upkeepEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.upkeepWake:
		case <-tick.C:
		}
		if !s.Connected() || s.opts.ReadOnly {
			continue
		}
		if err := s.tidy(s.ctx); err != nil && !s.isClosed() {
			s.log.Debug("upkeep of ZooKeeper was interrupted", "error", err)
			time.AfterFunc(readPause, func() { hint(s.upkeepWake) })
		}
	}
}

func (s *Store) tidy(ctx context.Context) error {
	if err := s.removeOrphans(ctx); err != nil {
		return err
	}
	if err := s.reregister(ctx); err != nil {
		return err
	}
	if err := s.removeRequestLocks(ctx); err != nil {
		return err
	}
	return s.removeEmpty(ctx)
}

// removeOrphans deletes obsolete contenders of this process. It forgets contenders that have not appeared within two
// session timeouts, because they were never created.
func (s *Store) removeOrphans(ctx context.Context) error {
	s.mu.Lock()
	var ops []any
	for prefix, o := range s.orphans {
		found := false
		for name := range s.cache.queues[o.dir] {
			if prefixOf(name) == prefix {
				found = true
				ops = append(ops, &zk.DeleteRequest{Path: s.serverPath(o.dir + "/" + name), Version: -1})
			}
		}
		if !found && s.ownContenders[prefix] == nil && time.Since(o.since) > 2*s.sessionTimeout() {
			delete(s.orphans, prefix)
		}
	}
	s.mu.Unlock()
	if len(ops) == 0 {
		return nil
	}
	return s.deleteEach(ctx, ops)
}

func (s *Store) reregister(ctx context.Context) error {
	s.registryMu.Lock()
	defer s.registryMu.Unlock()
	return s.syncRegistry(ctx)
}

// removeRequestLocks deletes lock directories that have outlived their requests.
func (s *Store) removeRequestLocks(ctx context.Context) error {
	unknown := s.noteStale()
	for _, dir := range unknown {
		_, stat, err := s.get(ctx, dir)
		if ignore(err, zk.ErrNoNode) != nil {
			return err
		}
		if err == nil {
			s.mu.Lock()
			s.staleLockDirs[dir] = stat.Ctime
			s.mu.Unlock()
		}
	}
	for _, dir := range s.overdue() {
		_, _, err := s.multi(ctx, "remove "+dir, []any{&zk.DeleteRequest{Path: s.serverPath(dir), Version: -1}})
		if ignore(err, zk.ErrNoNode, zk.ErrNotEmpty) != nil {
			return err
		}
	}
	return nil
}

// noteStale records the directories without a request and returns those with an unknown age. The age of a directory
// that appeared during this session counts from now.
func (s *Store) noteStale() (unknown []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now().UnixMilli()
	for id := range kidsOf(s.cache.nodes[requestLocks]) {
		dir := requestLocks + "/" + id
		_, noted := s.staleLockDirs[dir]
		switch {
		case s.cache.nodes[requestsDir+"/"+id] != nil:
			delete(s.staleLockDirs, dir)
		case noted:
		case s.cache.nodes[dir].knownSince > s.loadedAt:
			s.staleLockDirs[dir] = now
		case len(unknown) < maxRemovals:
			unknown = append(unknown, dir)
		}
	}
	return unknown
}

// overdue lists directories that are old enough and empty, and forgets deleted ones.
func (s *Store) overdue() (dirs []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.opts.Now().Add(-requestLockAge).UnixMilli()
	for dir, since := range s.staleLockDirs {
		switch z := s.cache.nodes[dir]; {
		case z == nil:
			delete(s.staleLockDirs, dir)
		case since <= before && len(z.children) == 0 && len(dirs) < maxRemovals:
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// removeEmpty deletes records without data. A client that dies between creating a znode and writing it leaves one, and
// so does a lock that is created in a record's directory after the record was deleted.
func (s *Store) removeEmpty(ctx context.Context) error {
	for _, at := range s.empty() {
		ops := s.emptyOps(at)
		if len(ops) == 0 {
			continue
		}
		_, _, err := s.multi(ctx, "remove "+at, ops)
		if err == nil {
			s.log.Info("removed a record without data from ZooKeeper", "znode", at)
		}
		if ignore(err, zk.ErrNoNode, zk.ErrNotEmpty, zk.ErrBadVersion) != nil {
			return err
		}
	}
	return nil
}

// empty lists records without data that are older than emptyAge.
func (s *Store) empty() (paths []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.opts.Now().Add(-emptyAge).UnixMilli()
	for at, z := range s.cache.nodes {
		if z.ref.role == roleRecord && z.known && len(z.data) == 0 && z.created <= before && len(paths) < maxRemovals {
			paths = append(paths, at)
		}
	}
	slices.Sort(paths)
	return paths
}

// emptyOps returns the deletions of a record without data and its descendants. It returns none if a process has locked
// the record, if the record has data by now, or if it is a build that still has uploads.
func (s *Store) emptyOps(at string) (ops []any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	z := s.cache.nodes[at]
	if _, dirty := s.cache.dirty[at]; z == nil || dirty || len(z.data) > 0 || s.inOwnWrite(at) {
		return nil
	}
	for _, below := range s.cache.subtree(at) {
		version := int32(-1)
		switch p := s.cache.nodes[below].ref; {
		case below == at:
			version = z.version
		case p.role == roleContender || p.role == roleRecord:
			return nil
		}
		ops = append(ops, &zk.DeleteRequest{Path: s.serverPath(below), Version: version})
	}
	return ops
}
