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

// Store is an npctl process in ZooKeeper: one session. See state.Store and state.Shared for what it promises, with two
// things to know: another's commit is seen a moment after it was made (Sync waits for that), and Get and List serve what
// was known last also while the connection is down, which Connected tells.
type Store struct {
	opts    Options
	log     *slog.Logger
	dial    *dialer
	conn    *zk.Conn
	private state.Store
	lineage string

	ctx     context.Context // until Close; what the workers live by
	stop    context.CancelFunc
	workers sync.WaitGroup
	wake    chan struct{} // the feed has something to do
	tend    chan struct{} // the upkeep has
	closed  chan struct{} // after Close has done everything

	privateMu  sync.Mutex // held over a commit with records of both stores
	registryMu sync.Mutex // held while registrations are written

	mu       sync.Mutex // guards what follows; nothing is waited for while it is held
	cache    *cache
	link     link
	holds    map[*hold]struct{}
	mine     map[string]*contender // by prefix
	orphans  map[string]orphan     // contenders of ours that nobody needs any more, by prefix
	claims   map[resources.Key]*claim
	locks    map[*lock]struct{}
	reported map[string]int64 // malformed records that were logged, by path, at which mzxid
	pools    []*registered
	process  *registered // as a launcher
	builder  *registered
	unwanted []string           // registrations to remove
	ids      map[poolKey]string // of pools, as long as this process lives
	loadedAt uint64             // number of the newest event when everything had been read for the first time
	stale    map[string]int64   // lock directories of requests that are gone, and since when, in milliseconds since 1970
	watchers map[chan struct{}]struct{}
	settled  chan struct{} // closed and replaced when the feed has taken something in
}

// Open connects, reads what is there, and makes what is missing of the directories that everybody relies on. The error
// says what to do.
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
	s := &Store{opts: opts, log: opts.Log, dial: d, private: opts.Private, wake: make(chan struct{}, 1), tend: make(chan struct{}, 1),
		closed: make(chan struct{}), cache: newCache(), holds: map[*hold]struct{}{}, mine: map[string]*contender{},
		orphans: map[string]orphan{}, claims: map[resources.Key]*claim{}, locks: map[*lock]struct{}{}, reported: map[string]int64{},
		ids: map[poolKey]string{}, stale: map[string]int64{}, watchers: map[chan struct{}]struct{}{}, settled: make(chan struct{})}
	s.link.changed = make(chan struct{})
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// begin connects and waits until everything is read.
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

// prepareInTime prepares, and does it again when the connection was lost meanwhile, as a busy server's is. All of it may be
// done twice, but an arrival.
func (s *Store) prepareInTime(ctx context.Context) error {
	for {
		err := s.prepare(ctx)
		if !errors.Is(err, errUnknown) || s.opts.Arriving || ctx.Err() != nil {
			return err
		}
		s.log.Info("ZooKeeper is asked again", "error", err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(openPause):
		}
	}
}

// openPause is between two tries to open a state.
const openPause = 100 * time.Millisecond

// prepare checks the chroot and makes the directories and npctl's own znodes.
func (s *Store) prepare(ctx context.Context) error {
	if s.opts.Chroot != "" {
		if there, err := s.exists(ctx, ""); err != nil {
			return err
		} else if !there {
			return fmt.Errorf("the chroot %s is not there: create it, or give the one that Zuul and Nodepool have", s.opts.Chroot)
		}
	}
	if err := s.found(ctx); err != nil {
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

// over says that the store was closed.
func (s *Store) over() bool { return s.ctx.Err() != nil }

// usable reports whether the store may be used still.
func (s *Store) usable(ctx context.Context) error {
	if s.over() {
		return fmt.Errorf("state in ZooKeeper: %w", os.ErrClosed)
	}
	return ctx.Err()
}

const closeTimeout = 10 * time.Second

// Close implements state.Store. Registrations go first, so that no request waits for this process; locks and claims end
// with the session.
func (s *Store) Close() error {
	s.mu.Lock()
	first := !s.over()
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
	s.loseAll("the store was closed")
	return nil
}

// logger passes on what the client library says, which is of interest to those who look for a fault.
type logger struct{ log *slog.Logger }

// Printf implements zk.Logger.
func (l logger) Printf(format string, args ...any) {
	l.log.Debug("ZooKeeper client", "says", fmt.Sprintf(format, args...))
}
