package zookeeper

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sync/errgroup"

	"github.com/npctl/npctl/resources"
)

const (
	maxReads = 128 // concurrent reads
	// maxRounds limits how long drain withholds results in order to publish the changes of one commit together. During
	// constant changes it publishes them anyway.
	maxRounds = 8
	readPause = 100 * time.Millisecond // delay after a read failed on a live connection
)

// ownWrite keeps the feed from reading znodes that a commit of this process writes. The commit caches them itself.
type ownWrite struct {
	paths   map[string]bool
	parents map[string]bool // directories in which it creates znodes with names that it does not know yet
	events  map[string]int  // number of events by path
	gone    map[string]bool // paths that any process deleted
}

func (h *ownWrite) covers(at string) bool { return h.paths[at] || h.parents[parentOf(at)] }

func (h *ownWrite) note(kind zk.EventType, at string) {
	if !h.covers(at) {
		return
	}
	h.events[at]++
	h.gone[at] = kind == zk.EventNodeDeleted
}

// onChange applies an event. s.mu is held.
func (s *Store) onChange(kind zk.EventType, at string) {
	for h := range s.ownWrites {
		h.note(kind, at)
	}
	if kind == zk.EventNodeDeleted {
		s.onGone(at)
		delete(s.reported, at)
	} else if _, orphan := s.orphans[prefixOf(nameOf(at))]; orphan {
		hint(s.upkeepWake)
	}
	s.cache.event(kind, at)
	if _, dirty := s.cache.dirty[at]; dirty {
		hint(s.wake)
		return
	}
	s.hintAll()
}

// onGone marks a lock as lost if the deleted znode was its contender and this process did not delete it. s.mu is held.
func (s *Store) onGone(at string) {
	prefix := prefixOf(nameOf(at))
	if c := s.ownContenders[prefix]; c != nil && c.dir == parentOf(at) {
		c.exists = false
		if !c.releasing && c.markLost() && s.ctx.Err() == nil {
			s.log.Warn("lock in ZooKeeper was removed", "lock", c.dir)
		}
	}
	delete(s.orphans, prefix)
}

// feed keeps the cache up to date until the store is closed.
func (s *Store) feed() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.wake:
		}
		if err := s.catchUp(s.ctx); err != nil && !s.isClosed() {
			s.log.Debug("reading from ZooKeeper was interrupted", "error", err)
			s.later(readPause)
		}
	}
}

// later wakes the feed after d. A new connection wakes it in any case.
func (s *Store) later(d time.Duration) {
	time.AfterFunc(d, func() { hint(s.wake) })
}

// catchUp reads the whole tree once per connection, and after that only changes.
func (s *Store) catchUp(ctx context.Context) error {
	s.mu.Lock()
	up, epoch, loaded := s.connection.up, s.connection.epoch, s.connection.loaded
	s.mu.Unlock()
	if !up {
		return nil
	}
	if loaded != epoch {
		if err := s.load(ctx); err != nil {
			return err
		}
	}
	if err := s.drain(ctx); err != nil {
		return err
	}
	s.caughtUp(epoch)
	return nil
}

// caughtUp marks the cache as up to date.
func (s *Store) caughtUp(epoch uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.connection.epoch == epoch && s.connection.up {
		s.connection.loaded = epoch
		if s.checkOwnContenders(); s.loadedAt == 0 {
			s.loadedAt = s.cache.seq + 1
		}
		if !s.connection.synced {
			s.connection.synced = true
			s.connection.announce()
			hint(s.upkeepWake)
		}
	}
	close(s.settled)
	s.settled = make(chan struct{})
	s.hintAll()
}

// checkOwnContenders handles contenders of this process that were deleted while there was no connection. s.mu is held.
func (s *Store) checkOwnContenders() {
	for _, c := range s.ownContenders {
		if c.exists && s.cache.nodes[c.path] == nil {
			s.onGone(c.path)
		}
	}
}

// drain reads the changed znodes. The events of one transaction arrive in a row, all before the answer to a read that
// shows one of its changes. drain therefore publishes results only after a round of reads without a further event.
func (s *Store) drain(ctx context.Context) error {
	batch := map[string]result{}
	for range maxRounds {
		s.mu.Lock()
		since := s.cache.seq
		paths := s.readable(batch)
		s.mu.Unlock()
		if len(paths) == 0 {
			break
		}
		results, err := s.readAll(ctx, paths)
		if err != nil {
			return err
		}
		for at, r := range results {
			r.since = since
			batch[at] = r
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, r := range batch {
		s.take(at, r)
	}
	if len(s.readable(nil)) > 0 {
		hint(s.wake)
	}
	return nil
}

// readable lists the paths that changed after they were last read. s.mu is held.
func (s *Store) readable(batch map[string]result) []string {
	var paths []string
	for at, seq := range s.cache.dirty {
		if r, ok := batch[at]; ok && r.since >= seq || s.inOwnWrite(at) {
			continue
		}
		paths = append(paths, at)
	}
	return paths
}

func (s *Store) inOwnWrite(at string) bool {
	for h := range s.ownWrites {
		if h.covers(at) {
			return true
		}
	}
	return false
}

// result is the outcome of one read.
type result struct {
	content
	kids  int32
	there bool
	since uint64 // newest event before the request
}

// take stores a result in the cache, unless the znode has changed since the read. s.mu is held.
func (s *Store) take(at string, r result) {
	seq, dirty := s.cache.dirty[at]
	switch {
	case !dirty || seq > r.since || s.inOwnWrite(at):
	case !r.there:
		s.cache.remove(at)
	default:
		s.report(at, r.content)
		s.cache.put(at, r.content)
		delete(s.cache.dirty, at)
	}
}

// report logs a record that cannot be read, once for each version of it. s.mu is held.
func (s *Store) report(at string, c content) {
	if c.bad == "" {
		delete(s.reported, at)
		return
	}
	if s.reported[at] != c.mzxid {
		s.reported[at] = c.mzxid
		s.log.Error("record in ZooKeeper cannot be decoded and is ignored", "znode", at, "problem", c.bad)
	}
}

// readAll reads the content of znodes concurrently.
func (s *Store) readAll(ctx context.Context, paths []string) (map[string]result, error) {
	results := make([]result, len(paths))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxReads)
	for i, at := range paths {
		group.Go(func() (err error) {
			results[i], err = s.read(ctx, at)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	all := make(map[string]result, len(paths))
	for i, at := range paths {
		all[at] = results[i]
	}
	return all, nil
}

func (s *Store) read(ctx context.Context, at string) (result, error) {
	data, stat, err := s.get(ctx, at)
	if errors.Is(err, zk.ErrNoNode) {
		return result{}, nil
	}
	if err != nil {
		return result{}, err
	}
	c := content{data: data, version: stat.Version, mzxid: stat.Mzxid, created: stat.Ctime}
	return result{content: s.decode(parsePath(at), c), kids: stat.NumChildren, there: true}, nil
}

// decode decodes the content of a record or registration.
func (s *Store) decode(p znodeRef, c content) content {
	var err error
	switch {
	case p.role == roleComponent:
		c.peer = decodeComponent(p, c.data)
	case len(c.data) == 0 && p.kind == resources.KindBuild: // created as the parent of an upload
	case len(c.data) == 0:
		c.bad = "it is empty"
	default:
		if c.record, _, err = s.codec(p.kind).decode(p, c.data, c.created); err != nil {
			c.record, c.bad = nil, err.Error()
		}
	}
	return c
}

// Sync waits until the cache includes all changes that any process made before the call.
func (s *Store) Sync(ctx context.Context) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	if err := s.waitSynced(ctx); err != nil {
		return err
	}
	if _, err := callWithTimeout(ctx, s, "sync", func() (string, error) { return s.conn.Sync(s.serverPath("")) }); err != nil {
		return err
	}
	s.mu.Lock()
	upTo := s.cache.seq
	s.mu.Unlock()
	return s.settle(ctx, func() bool {
		for at, seq := range s.cache.dirty {
			if seq <= upTo && !s.inOwnWrite(at) {
				return false
			}
		}
		return s.connection.synced
	})
}

// settle waits for the feed until enough returns true.
func (s *Store) settle(ctx context.Context, enough func() bool) error {
	for {
		s.mu.Lock()
		ok, settled := enough(), s.settled
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ctx.Done():
			return s.usable(ctx)
		case <-settled:
		}
	}
}
