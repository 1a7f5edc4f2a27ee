package zookeeper

import (
	"context"
	"log/slog"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// mirror keeps the cache equal to the tree in ZooKeeper: events mark znodes as changed, and the feed reads them. It
// serves all reads of shared records.
type mirror struct {
	session *session
	log     *slog.Logger
	wake    chan struct{}               // the feed has work
	current func(becameSynced bool)     // called when the cache is up to date; mu is held
	resume  func(context.Context) error // called on a new connection, before the tree is read

	mu        *sync.Mutex // guards the fields below; see Store
	cache     *cache
	ownWrites map[*ownWrite]struct{}
	reported  map[string]int64 // mzxid of malformed records that were logged, by path
	loadedAt  uint64           // one more than the number of the newest event at the end of the first full load
	watchers  map[chan struct{}]struct{}
	settled   chan struct{} // closed and replaced when the feed has applied changes
}

func newMirror(s *session, known *cache, log *slog.Logger, current func(becameSynced bool), resume func(context.Context) error) *mirror {
	return &mirror{session: s, log: log, wake: make(chan struct{}, 1), current: current, resume: resume, mu: s.mu, cache: known,
		ownWrites: map[*ownWrite]struct{}{}, reported: map[string]int64{}, watchers: map[chan struct{}]struct{}{},
		settled: make(chan struct{})}
}

// onChange applies an event. mu is held.
func (m *mirror) onChange(kind zk.EventType, at string) {
	for h := range m.ownWrites {
		h.note(kind, at)
	}
	if kind == zk.EventNodeDeleted {
		delete(m.reported, at)
	}
	m.cache.event(kind, at)
	if m.cache.isDirty(at) {
		hint(m.wake)
		return
	}
	m.hintAll()
}

// sync waits until the cache includes all changes that any process made before the call.
func (m *mirror) sync(ctx context.Context) error {
	if err := m.session.usable(ctx); err != nil {
		return err
	}
	if err := m.session.waitSynced(ctx); err != nil {
		return err
	}
	if err := m.session.sync(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	upTo := m.cache.seq
	m.mu.Unlock()
	return m.settle(ctx, func() bool {
		for at, seq := range m.cache.dirty {
			if seq <= upTo && !m.inOwnWrite(at) {
				return false
			}
		}
		return m.session.connection.synced
	})
}

// settle waits for the feed until enough returns true. It calls enough with mu held.
func (m *mirror) settle(ctx context.Context, enough func() bool) error {
	for {
		m.mu.Lock()
		ok, settled := enough(), m.settled
		m.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.session.ctx.Done():
			return m.session.usable(ctx)
		case <-settled:
		}
	}
}

// isUnread reports whether another process has changed a znode and the feed has not read it yet. mu is held.
func (m *mirror) isUnread(at string) bool { return m.cache.isDirty(at) && !m.inOwnWrite(at) }

// startOwnWrite keeps the feed from the znodes of a commit until endOwnWrite. mu is held.
func (m *mirror) startOwnWrite(h *ownWrite) { m.ownWrites[h] = struct{}{} }

func (m *mirror) endOwnWrite(h *ownWrite) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.ownWrites, h)
	hint(m.wake)
}

func (m *mirror) inOwnWrite(at string) bool {
	for h := range m.ownWrites {
		if h.covers(at) {
			return true
		}
	}
	return false
}

// watch adds a channel that receives the hints of the mirror. mu is held.
func (m *mirror) watch(hints chan struct{}) { m.watchers[hints] = struct{}{} }

// unwatch removes and closes a channel.
func (m *mirror) unwatch(hints chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.watchers, hints)
	close(hints)
}

// hintAll sends a hint to all watchers. mu is held.
func (m *mirror) hintAll() {
	for w := range m.watchers {
		hint(w)
	}
}

// hint never blocks: one pending hint stands for all later ones.
func hint(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// settledEntry returns the current record after this process has locked it. The events of all changes that precede the
// lock have arrived; settledEntry waits until the feed has read them.
func (m *mirror) settledEntry(ctx context.Context, key resources.Key) (state.Entry, error) {
	var entry state.Entry
	err := m.settle(ctx, func() bool {
		at, z := m.cache.find(key)
		if entry = (state.Entry{}); z == nil {
			return true
		}
		entry = m.cache.entryOf(z)
		return !m.isUnread(at)
	})
	if err == nil && entry.Record == nil {
		err = state.ErrNotFound
	}
	return entry, err
}
