package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/npctl/npctl/state"
)

var (
	_ state.Shared     = (*Store)(nil)
	_ state.Identified = (*Store)(nil)
)

// Store is the session of one npctl process with ZooKeeper. See state.Store and state.Shared for its contract, with two
// additions: a commit of another process appears after a moment (Sync waits for it), and Get and List serve the last
// known records also while the connection is down, which Connected reports.
//
// Store combines parts that each own their state. One event of ZooKeeper changes the connection, the cache and the
// locks at one moment, and a commit reads all of them at one moment. The parts therefore share one mutex, mu; a method
// whose comment says "mu is held" expects it. No part holds it while it waits.
type Store struct {
	ctx     context.Context // until Close; bounds the workers
	stop    context.CancelFunc
	log     *slog.Logger
	workers sync.WaitGroup
	closed  chan struct{} // closed when Close has finished
	mu      *sync.Mutex

	session      *session
	installation *installation
	mirror       *mirror
	locks        *locks
	presence     *presence
	numbers      *numbers
	transactions *transactions
	private      *privateRecords
	upkeep       *upkeep
}

// Open connects, reads the tree, and creates missing directories on which all programs rely. Its errors say what to do.
func Open(ctx context.Context, opts Options) (*Store, error) {
	if err := opts.complete(); err != nil {
		return nil, fmt.Errorf("state in ZooKeeper: %w", err)
	}
	s, err := newStore(opts)
	if err != nil {
		return nil, fmt.Errorf("state in ZooKeeper: %w", err)
	}
	return s.open(ctx, opts.OpenTimeout)
}

// open connects and waits until the tree has been read.
func (s *Store) open(ctx context.Context, limit time.Duration) (*Store, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := s.session.connect()
	if err == nil {
		err = s.session.waitLinked(ctx)
	}
	if err == nil {
		err = s.installation.prepareInTime(ctx)
	}
	if err == nil {
		s.workers.Go(func() { s.mirror.feed(s.ctx) })
		s.workers.Go(func() { s.upkeep.run(s.ctx) })
		err = s.session.waitSynced(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("state in ZooKeeper: %w", err), s.Close())
	}
	return s, nil
}

// newStore creates the parts. Each knows only the parts before it.
func newStore(opts Options) (*Store, error) {
	s := &Store{log: opts.Log, closed: make(chan struct{}), mu: &sync.Mutex{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	var err error
	if s.session, err = newSession(s.ctx, opts, s.mu, s); err != nil {
		return nil, err
	}
	known, upkeepWake := newCache(), make(chan struct{}, 1)
	s.installation = &installation{opts: opts, session: s.session}
	s.mirror = newMirror(s.session, known, opts.Log, s.onCaughtUp, s.installation.resume)
	s.locks = newLocks(s.session, s.mirror, known, opts, upkeepWake)
	s.presence = &presence{session: s.session, mirror: s.mirror, cache: known, log: opts.Log, mu: s.mu, host: opts.Host,
		version: opts.Version, ids: map[poolKey]string{}}
	s.numbers = &numbers{session: s.session, cache: known, mu: s.mu}
	s.transactions = &transactions{session: s.session, mirror: s.mirror, cache: known, locks: s.locks, presence: s.presence,
		numbers: s.numbers, mu: s.mu}
	s.private = &privateRecords{store: opts.Private, session: s.session, numbers: s.numbers, log: opts.Log, mu: s.mu,
		cache: known}
	s.upkeep = &upkeep{session: s.session, mirror: s.mirror, cache: known, locks: s.locks, presence: s.presence, log: opts.Log,
		now: opts.Now, wake: upkeepWake, mu: s.mu, staleLockDirs: map[string]int64{}}
	return s, nil
}

const closeTimeout = 10 * time.Second

// Close implements state.Store. It removes registrations first, so that no request waits for this process. Locks and
// claims end with the session.
func (s *Store) Close() error {
	s.mu.Lock()
	first := !s.session.isClosed()
	s.stop()
	s.mu.Unlock()
	if !first {
		<-s.closed
		return nil
	}
	defer close(s.closed)
	s.workers.Wait()
	if s.session.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		s.presence.unregister(ctx)
		s.session.conn.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locks.loseAll("the store was closed")
	return nil
}
