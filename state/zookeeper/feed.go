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
	maxReads = 128 // under way at once
	// maxRounds bounds how long a view is held back to show the changes of one commit together. Under a storm of changes
	// it is shown anyway.
	maxRounds = 8
	readPause = 100 * time.Millisecond // after a read failed though there is a connection
)

// hold keeps the feed from reading what a commit of our own is writing: it will know what it wrote.
type hold struct {
	paths   map[string]bool
	parents map[string]bool // where it creates znodes whose names it does not know yet
	events  map[string]int  // how many there have been
	gone    map[string]bool // what was deleted, by whomever
}

func (h *hold) covers(at string) bool { return h.paths[at] || h.parents[parentOf(at)] }

func (h *hold) note(kind zk.EventType, at string) {
	if !h.covers(at) {
		return
	}
	h.events[at]++
	h.gone[at] = kind == zk.EventNodeDeleted
}

// onChange takes in an event. s.mu is held.
func (s *Store) onChange(kind zk.EventType, at string) {
	for h := range s.holds {
		h.note(kind, at)
	}
	if kind == zk.EventNodeDeleted {
		s.onGone(at)
		delete(s.reported, at)
	} else if _, orphan := s.orphans[prefixOf(nameOf(at))]; orphan {
		hint(s.tend)
	}
	s.cache.event(kind, at)
	if _, dirty := s.cache.dirty[at]; dirty {
		hint(s.wake)
		return
	}
	s.hintAll()
}

// onGone notices that a contender of ours was removed by somebody else. s.mu is held.
func (s *Store) onGone(at string) {
	prefix := prefixOf(nameOf(at))
	if c := s.mine[prefix]; c != nil && c.dir == parentOf(at) {
		c.there = false
		if !c.ending && c.lose() && s.ctx.Err() == nil {
			s.log.Warn("lock in ZooKeeper was taken away", "lock", c.dir)
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
		if err := s.catchUp(s.ctx); err != nil && !s.over() {
			s.log.Debug("reading from ZooKeeper was cut short", "error", err)
			s.later(readPause)
		}
	}
}

// later wakes the feed after a while; a new connection wakes it in any case.
func (s *Store) later(d time.Duration) {
	time.AfterFunc(d, func() { hint(s.wake) })
}

// catchUp reads everything once for each connection, and what has changed since.
func (s *Store) catchUp(ctx context.Context) error {
	s.mu.Lock()
	up, epoch, loaded := s.link.up, s.link.epoch, s.link.loaded
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

// caughtUp says that everything up to now was taken in.
func (s *Store) caughtUp(epoch uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link.epoch == epoch && s.link.up {
		s.link.loaded = epoch
		if s.checkMine(); s.loadedAt == 0 {
			s.loadedAt = s.cache.seq + 1
		}
		if !s.link.synced {
			s.link.synced = true
			s.link.announce()
			hint(s.tend)
		}
	}
	close(s.settled)
	s.settled = make(chan struct{})
	s.hintAll()
}

// checkMine finds out which contenders of ours went while nobody could tell us. s.mu is held.
func (s *Store) checkMine() {
	for _, c := range s.mine {
		if c.there && s.cache.nodes[c.path] == nil {
			s.onGone(c.path)
		}
	}
}

// drain reads what has changed. Changes of one transaction come as events in a row, all before the answer to a read that
// shows one of them; so nothing is shown until a round of reads has brought no further event.
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

// readable lists what has to be read, and was not since it changed. s.mu is held.
func (s *Store) readable(batch map[string]result) []string {
	var paths []string
	for at, seq := range s.cache.dirty {
		if r, ok := batch[at]; ok && r.since >= seq || s.held(at) {
			continue
		}
		paths = append(paths, at)
	}
	return paths
}

func (s *Store) held(at string) bool {
	for h := range s.holds {
		if h.covers(at) {
			return true
		}
	}
	return false
}

// result is what a read brought.
type result struct {
	content
	kids  int32
	there bool
	since uint64 // newest event before it was asked for
}

// take puts a result into the cache, unless the znode has changed since. s.mu is held.
func (s *Store) take(at string, r result) {
	seq, dirty := s.cache.dirty[at]
	switch {
	case !dirty || seq > r.since || s.held(at):
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
		s.log.Error("a record in ZooKeeper cannot be read and is left alone", "znode", at, "problem", c.bad)
	}
}

// readAll reads the content of znodes, many at a time.
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
	return result{content: s.decode(placeOf(at), c), kids: stat.NumChildren, there: true}, nil
}

// decode reads the content of a record or registration.
func (s *Store) decode(p place, c content) content {
	var err error
	switch {
	case p.role == roleComponent:
		c.peer = decodeComponent(p, c.data)
	case len(c.data) == 0 && p.kind == resources.KindBuild: // made on the way to an upload
	case len(c.data) == 0:
		c.bad = "it is empty"
	default:
		if c.record, _, err = s.codec(p.kind).decode(p, c.data, c.created); err != nil {
			c.record, c.bad = nil, err.Error()
		}
	}
	return c
}

// Sync waits until everything that anybody had changed before is known here.
func (s *Store) Sync(ctx context.Context) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	if err := s.waitSynced(ctx); err != nil {
		return err
	}
	if _, err := ask(ctx, s, "sync", func() (string, error) { return s.conn.Sync(s.at("")) }); err != nil {
		return err
	}
	s.mu.Lock()
	upTo := s.cache.seq
	s.mu.Unlock()
	return s.settle(ctx, func() bool {
		for at, seq := range s.cache.dirty {
			if seq <= upTo && !s.held(at) {
				return false
			}
		}
		return s.link.synced
	})
}

// settle waits until the feed has taken in enough.
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
