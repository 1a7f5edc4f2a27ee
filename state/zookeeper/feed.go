package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sync/errgroup"
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

// feed keeps the cache up to date until the store is closed.
func (m *mirror) feed(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		}
		if err := m.catchUp(ctx); err != nil && !m.session.isClosed() {
			m.log.Debug("reading from ZooKeeper was interrupted", "error", err)
			time.AfterFunc(readPause, func() { hint(m.wake) }) // a new connection wakes the feed in any case
		}
	}
}

// catchUp reads the whole tree once per connection, and after that only changes.
func (m *mirror) catchUp(ctx context.Context) error {
	m.mu.Lock()
	c := m.session.connection
	m.mu.Unlock()
	if !c.up {
		return nil
	}
	if c.loaded != c.epoch {
		if c.loaded > 0 {
			if err := m.resume(ctx); err != nil {
				return err
			}
		}
		if err := m.load(ctx); err != nil {
			return err
		}
	}
	if err := m.drain(ctx); err != nil {
		return err
	}
	m.caughtUp(c.epoch)
	return nil
}

// caughtUp marks the cache as up to date.
func (m *mirror) caughtUp(epoch uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if synced, first := m.session.markSynced(epoch); synced {
		m.loadedAt = cmp.Or(m.loadedAt, m.cache.seq+1)
		m.current(first)
	}
	close(m.settled)
	m.settled = make(chan struct{})
	m.hintAll()
}

// drain reads the changed znodes. The events of one transaction arrive in a row, all before the answer to a read that
// shows one of its changes. drain therefore publishes results only after a round of reads without a further event.
func (m *mirror) drain(ctx context.Context) error {
	batch := map[string]result{}
	for range maxRounds {
		m.mu.Lock()
		since := m.cache.seq
		paths := m.readable(batch)
		m.mu.Unlock()
		if len(paths) == 0 {
			break
		}
		results, err := m.readAll(ctx, paths)
		if err != nil {
			return err
		}
		for at, r := range results {
			r.since = since
			batch[at] = r
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for at, r := range batch {
		m.take(at, r)
	}
	if len(m.readable(nil)) > 0 {
		hint(m.wake)
	}
	return nil
}

// readable lists the paths that changed after they were last read. mu is held.
func (m *mirror) readable(batch map[string]result) []string {
	var paths []string
	for at, seq := range m.cache.dirty {
		if r, ok := batch[at]; ok && r.since >= seq || m.inOwnWrite(at) {
			continue
		}
		paths = append(paths, at)
	}
	return paths
}

// result is the outcome of one read.
type result struct {
	content
	kids  int32
	there bool
	since uint64 // newest event before the request
}

// take stores a result in the cache, unless the znode has changed since the read. mu is held.
func (m *mirror) take(at string, r result) {
	seq, dirty := m.cache.dirty[at]
	switch {
	case !dirty || seq > r.since || m.inOwnWrite(at):
	case !r.there:
		m.cache.remove(at)
	default:
		m.report(at, r.content)
		m.cache.put(at, r.content)
		delete(m.cache.dirty, at)
	}
}

// report logs a record that cannot be read, once for each version of it. mu is held.
func (m *mirror) report(at string, c content) {
	if c.bad == "" {
		delete(m.reported, at)
		return
	}
	if m.reported[at] != c.mzxid {
		m.reported[at] = c.mzxid
		m.log.Error("record in ZooKeeper cannot be decoded and is ignored", "znode", at, "problem", c.bad)
	}
}

// readAll reads the content of znodes concurrently.
func (m *mirror) readAll(ctx context.Context, paths []string) (map[string]result, error) {
	results := make([]result, len(paths))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxReads)
	for i, at := range paths {
		group.Go(func() (err error) {
			results[i], err = m.read(ctx, at)
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

func (m *mirror) read(ctx context.Context, at string) (result, error) {
	data, stat, err := m.session.get(ctx, at)
	if errors.Is(err, zk.ErrNoNode) {
		return result{}, nil
	}
	if err != nil {
		return result{}, err
	}
	c := content{data: data, version: stat.Version, mzxid: stat.Mzxid, created: stat.Ctime}
	return result{content: decode(parsePath(at), c), kids: stat.NumChildren, there: true}, nil
}
