package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

var (
	_ state.Shared     = (*Store)(nil)
	_ state.Identified = (*Store)(nil)
)

// Store is the session of one npctl process with ZooKeeper. See state.Store and state.Shared for its contract, with two
// additions: a commit of another process appears after a moment (Sync waits for it), and Get and List serve the last
// known records also while the connection is down, which Connected reports.
type Store struct {
	opts    Options
	log     *slog.Logger
	dial    *dialer
	conn    *zk.Conn
	private state.Store
	lineage string

	ctx        context.Context // until Close; bounds the workers
	stop       context.CancelFunc
	workers    sync.WaitGroup
	wake       chan struct{} // the feed has work
	upkeepWake chan struct{} // the upkeep has work
	closed     chan struct{} // closed when Close has finished

	privateMu  sync.Mutex // held over a commit with records of both stores
	registryMu sync.Mutex // held while registrations are written

	mu            sync.Mutex // guards the fields below; never held while waiting
	cache         *cache
	connection    connectionState
	ownWrites     map[*ownWrite]struct{}
	ownContenders map[string]*contender // by prefix
	orphans       map[string]orphan     // obsolete contenders of this process, by prefix
	claims        map[resources.Key]*claim
	locks         map[*lock]struct{}
	reported      map[string]int64 // mzxid of malformed records that were logged, by path
	pools         []*registered
	process       *registered // registration as a launcher
	builder       *registered
	unwanted      []string           // registrations to remove
	ids           map[poolKey]string // of pools, for the life of this process
	loadedAt      uint64             // one more than the number of the newest event at the end of the first full load
	staleLockDirs map[string]int64   // lock directories of deleted requests; since when, in milliseconds since 1970
	watchers      map[chan struct{}]struct{}
	settled       chan struct{} // closed and replaced when the feed has applied changes
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
	ctx, cancel := context.WithTimeout(ctx, opts.OpenTimeout)
	defer cancel()
	if err := s.begin(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("state in ZooKeeper: %w", err), s.Close())
	}
	return s, nil
}

func newStore(opts Options) (*Store, error) {
	d := &dialer{paths: []string{opts.Chroot + rootDir, opts.Chroot + namedDir, opts.Chroot + frozenDir}}
	if opts.TLS != nil {
		config, err := opts.TLS.config()
		if err != nil {
			return nil, err
		}
		d.config = config
	}
	s := &Store{opts: opts, log: opts.Log, dial: d, private: opts.Private, wake: make(chan struct{}, 1), upkeepWake: make(chan struct{}, 1),
		closed: make(chan struct{}), cache: newCache(), ownWrites: map[*ownWrite]struct{}{}, ownContenders: map[string]*contender{},
		orphans: map[string]orphan{}, claims: map[resources.Key]*claim{}, locks: map[*lock]struct{}{}, reported: map[string]int64{},
		ids: map[poolKey]string{}, staleLockDirs: map[string]int64{}, watchers: map[chan struct{}]struct{}{}, settled: make(chan struct{})}
	s.connection.changed = make(chan struct{})
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// begin connects and waits until the tree has been read.
func (s *Store) begin(ctx context.Context) error {
	conn, _, err := zk.Connect(s.opts.Hosts, s.opts.SessionTimeout, zk.WithDialer(s.dial.dial),
		zk.WithHostProvider(&hosts{servers: s.opts.Hosts}), zk.WithEventCallback(s.onEvent), zk.WithLogInfo(false),
		zk.WithLogger(logger{s.log}), zk.WithMaxBufferSize(maxFrame))
	if err != nil {
		return err
	}
	s.conn = conn
	if err := s.waitLinked(ctx); err != nil {
		return err
	}
	if err := s.prepareInTime(ctx); err != nil {
		return err
	}
	s.workers.Go(s.feed)
	s.workers.Go(s.upkeep)
	return s.waitSynced(ctx)
}

// prepareInTime calls prepare, and repeats it if the connection was lost, as happens with a busy server. prepare may
// run twice, except during an import.
func (s *Store) prepareInTime(ctx context.Context) error {
	for {
		err := s.prepare(ctx)
		if !errors.Is(err, errOutcomeUnknown) || s.opts.Importing || ctx.Err() != nil {
			return err
		}
		s.log.Info("connection to ZooKeeper lost while opening the state; retrying", "error", err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(openPause):
		}
	}
}

// openPause is the delay between two attempts to open a state.
const openPause = 100 * time.Millisecond

// prepare checks the chroot and creates the shared directories and npctl's own znodes.
func (s *Store) prepare(ctx context.Context) error {
	if s.opts.Chroot != "" {
		if there, err := s.exists(ctx, ""); err != nil {
			return err
		} else if !there {
			return fmt.Errorf("the chroot %s does not exist: create it, or use the one of Zuul and Nodepool", s.opts.Chroot)
		}
	}
	if err := s.initialize(ctx); err != nil {
		return err
	}
	if !s.opts.ReadOnly {
		for _, dir := range []string{rootDir, requestsDir, requestLocks, nodesDir, imagesDir, registryDir, poolsDir, launchersDir, buildersDir} {
			if err := s.ensure(ctx, dir, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// isClosed reports whether Close was called.
func (s *Store) isClosed() bool { return s.ctx.Err() != nil }

// usable returns an error if the store is closed or ctx is done.
func (s *Store) usable(ctx context.Context) error {
	if s.isClosed() {
		return fmt.Errorf("state in ZooKeeper: %w", os.ErrClosed)
	}
	return ctx.Err()
}

const closeTimeout = 10 * time.Second

// Close implements state.Store. It removes registrations first, so that no request waits for this process. Locks and
// claims end with the session.
func (s *Store) Close() error {
	s.mu.Lock()
	first := !s.isClosed()
	s.stop()
	s.mu.Unlock()
	if !first {
		<-s.closed
		return nil
	}
	defer close(s.closed)
	s.workers.Wait()
	if s.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		s.unregister(ctx)
		s.conn.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.markAllLocksLost("the store was closed")
	return nil
}

// logger writes the messages of the client library to the debug log.
type logger struct{ log *slog.Logger }

// Printf implements zk.Logger.
func (l logger) Printf(format string, args ...any) {
	l.log.Debug("ZooKeeper client", "message", fmt.Sprintf(format, args...))
}
