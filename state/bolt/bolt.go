package bolt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

var (
	_ state.Store      = (*Store)(nil)
	_ state.Identified = (*Store)(nil)
)

// ErrReadOnly is returned by everything that would write to a store opened with Options.ReadOnly.
var ErrReadOnly = errors.New("the state is opened for reading only")

const (
	defaultTimeout = 10 * time.Second
	hintEvery      = 200 * time.Millisecond // how soon changes by other processes are noticed
	lostEvery      = time.Second            // how soon the loss of a lock is noticed without a commit
	closeTimeout   = 5 * time.Second        // for giving locks back in Close
)

// Options say which file to open and how. Only Path is required.
type Options struct {
	Path     string
	Version  string        // of npctl, recorded in the file
	Timeout  time.Duration // how long to wait for another process' transaction; 10 s when zero
	ReadOnly bool          // write nothing; a missing file is an empty store
	Role     Role          // what the file must be, and is made as
	AnyRole  bool          // whatever the file is
	Log      *slog.Logger  // told of dead holders' locks taken over; nil for nobody
}

// Store is an open state file. Between calls the file is closed.
type Store struct {
	file       *file
	opts       Options
	log        *slog.Logger
	migrations []migration
	self       process
	together   *together

	hintEvery, lostEvery time.Duration

	lineage string // of the file, once seen; used only within transactions of file, of which there is one at a time

	closing context.Context // ends when Close begins
	close   context.CancelFunc
	workers sync.WaitGroup // watchers and lock keepers

	mu       sync.Mutex // guards the fields below
	watchers map[*watcher]struct{}
	locks    map[*lock]struct{}
	hinted   version // what all watchers were given a hint of
}

// Open opens the state file, and makes it (0600, its directory 0700) when there is none and opts allow writing. A file
// of an older schema is brought up to date, after a copy of it was put beside it.
func Open(opts Options) (*Store, error) {
	return open(opts, migrations)
}

func open(opts Options, known []migration) (*Store, error) {
	s, err := newStore(opts, known)
	if err != nil {
		return nil, err
	}
	if err := s.prepare(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func newStore(opts Options, known []migration) (*Store, error) {
	if opts.Path == "" {
		return nil, errors.New("open state: no path given")
	}
	path, err := filepath.Abs(opts.Path)
	if err != nil {
		return nil, fmt.Errorf("open state %s: %w", opts.Path, err)
	}
	opts.Path = path
	if opts.Timeout <= 0 {
		opts.Timeout = defaultTimeout
	}
	s := &Store{
		file: newFile(path, opts.Timeout), opts: opts, log: opts.Log, migrations: known, self: thisProcess(), together: newTogether(),
		hintEvery: hintEvery, lostEvery: lostEvery,
		watchers: map[*watcher]struct{}{}, locks: map[*lock]struct{}{},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.file.log = s.log
	s.closing, s.close = context.WithCancel(context.Background())
	return s, nil
}

// prepare makes a missing file, brings an old one up to date and learns its lineage.
func (s *Store) prepare() error {
	ctx := context.Background()
	_, err := os.Stat(s.opts.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && s.opts.ReadOnly:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		if err := s.create(ctx); err != nil {
			return fmt.Errorf("create state %s: %w", s.opts.Path, explain(err))
		}
	}
	if !s.opts.ReadOnly {
		if err := s.migrate(ctx); err != nil {
			return err
		}
		if err := s.ensureHashKey(ctx); err != nil {
			return err
		}
	}
	_, err = s.Identity(ctx)
	return err
}

// ensureHashKey gives a key to a file that an older npctl made.
func (s *Store) ensureHashKey(ctx context.Context) error {
	id, err := s.Identity(ctx)
	if err != nil || id.HashKey != "" {
		return err
	}
	_, err = s.update(ctx, func(tx *bbolt.Tx, h *head) error {
		if len(h.HashKey) == 0 { // otherwise another process was faster
			h.HashKey = []byte(resources.NewHashKey())
		}
		return h.save(tx)
	})
	return err
}

// Identity implements state.Identified. A missing file that was opened for reading only has no lineage.
func (s *Store) Identity(ctx context.Context) (state.Identity, error) {
	id := state.Identity{Schema: s.schema()}
	err := s.view(ctx, func(_ *bbolt.Tx, h *head) error {
		id = h.identity()
		return nil
	})
	return id, err
}

// Close implements state.Store. It ends watches, gives locks back and closes their Lost channels.
func (s *Store) Close() error {
	s.mu.Lock()
	first := s.closing.Err() == nil
	s.close()
	s.mu.Unlock()
	if !first {
		return nil
	}
	s.workers.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return s.dropLocks(ctx)
}

// usable reports whether the store may be used still.
func (s *Store) usable(ctx context.Context) error {
	if s.closing.Err() != nil {
		return fmt.Errorf("state %s: %w", s.opts.Path, os.ErrClosed)
	}
	return ctx.Err()
}

// view runs fn on the records as they are now. A missing file that was opened for reading only has none: fn is not
// called then.
func (s *Store) view(ctx context.Context, fn func(*bbolt.Tx, *head) error) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	old := false
	err := s.file.view(ctx, func(tx *bbolt.Tx) error {
		h, err := s.readHead(tx)
		if err != nil {
			return err
		}
		if old = h.Schema < s.schema(); old {
			return nil
		}
		return fn(tx, h)
	})
	if s.opts.ReadOnly && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && old {
		return s.viewMigrated(ctx, fn)
	}
	return s.wrap("read", err)
}

// update runs fn in a transaction that is written when fn returns nil, and returns the version it made.
func (s *Store) update(ctx context.Context, fn func(*bbolt.Tx, *head) error) (version, error) {
	if err := s.usable(ctx); err != nil {
		return version{}, err
	}
	return s.write(ctx, fn)
}

// write is update for a store that may be closing.
func (s *Store) write(ctx context.Context, fn func(*bbolt.Tx, *head) error) (version, error) {
	if s.opts.ReadOnly {
		return version{}, fmt.Errorf("write state %s: %w", s.opts.Path, ErrReadOnly)
	}
	at, err := s.file.update(ctx, func(tx *bbolt.Tx) error {
		h, err := s.readHead(tx)
		if err != nil {
			return err
		}
		if h.Schema < s.schema() {
			return fmt.Errorf("its schema was put back from %d to %d while npctl ran: restart npctl", s.schema(), h.Schema)
		}
		return fn(tx, h)
	})
	return at, s.wrap("write", err)
}

// wrap says which file an error is about and what to do. Errors of the contract go through as they are.
func (s *Store) wrap(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case isContract(err), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	default:
		return fmt.Errorf("%s state %s: %w", doing, s.opts.Path, explain(err))
	}
}

func isContract(err error) bool {
	for _, own := range []error{state.ErrNotFound, state.ErrConflict, state.ErrLocked, state.ErrLost} {
		if errors.Is(err, own) {
			return true
		}
	}
	if _, other := errors.AsType[*RoleError](err); other {
		return true
	}
	_, refused := errors.AsType[state.Refusal](err)
	return refused
}
