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

const (
	defaultTimeout = 10 * time.Second
	hintEvery      = time.Second     // interval of checks for changes by other processes
	lostEvery      = time.Second     // interval of checks for a lost lock without a commit
	closeTimeout   = 5 * time.Second // for the release of locks in Close
)

// Options selects the file and how it is opened. Only Path is required.
type Options struct {
	Path     string
	Version  string        // of npctl, recorded in the file
	Timeout  time.Duration // maximum wait for another process' transaction; 10 s when zero
	ReadOnly bool          // write nothing; a missing file is an empty store
	Role     Role          // required role of an existing file, and role of a new one
	AnyRole  bool          // accept any role
	Log      *slog.Logger  // may be nil
}

// Store is an open state. Between calls the file is closed.
type Store struct {
	file  *file
	opts  Options
	log   *slog.Logger
	self  process
	group *groupCommit

	hintEvery, lostEvery time.Duration

	lineage string // of the file, empty until the first read; used only within transactions of file, which run one at a time

	closing context.Context // done when Close starts
	close   context.CancelFunc
	workers sync.WaitGroup // watchers and lock keepers

	mu       sync.Mutex // guards the fields below
	watchers map[watcher]struct{}
	locks    map[*lock]struct{}
	hinted   version // newest version for which all watchers have a hint
}

// Open opens the state file. If it is missing and opts allow writing, Open creates it (0600, its directory 0700).
func Open(opts Options) (*Store, error) {
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
		file: newFile(path, opts.Timeout), opts: opts, log: opts.Log, self: thisProcess(), group: newGroupCommit(),
		hintEvery: hintEvery, lostEvery: lostEvery,
		watchers: map[watcher]struct{}{}, locks: map[*lock]struct{}{},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.file.log = s.log
	s.closing, s.close = context.WithCancel(context.Background())
	if err := s.prepare(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// prepare creates a missing file and reads the lineage.
func (s *Store) prepare() error {
	if _, err := os.Stat(s.opts.Path); errors.Is(err, fs.ErrNotExist) {
		if s.opts.ReadOnly {
			return nil
		}
		if err := s.create(); err != nil {
			return fmt.Errorf("create state %s: %w", s.opts.Path, explain(err))
		}
	}
	_, err := s.Identity(context.Background())
	return err
}

// Identity implements state.Identified. A missing file that was opened read-only has no lineage.
func (s *Store) Identity(ctx context.Context) (state.Identity, error) {
	id := state.Identity{Schema: schemaVersion}
	err := s.view(ctx, func(_ *bbolt.Tx, h *head) error {
		id = state.Identity{Lineage: h.Lineage, Serial: h.Serial, Schema: h.Schema, HashKey: resources.HashKey(h.HashKey)}
		return nil
	})
	return id, err
}

// Close implements state.Store. It ends watches, releases locks and closes their Lost channels.
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

// usable returns an error if the store is closed or ctx is done.
func (s *Store) usable(ctx context.Context) error {
	if s.closing.Err() != nil {
		return fmt.Errorf("state %s: %w", s.opts.Path, os.ErrClosed)
	}
	return ctx.Err()
}

// view runs fn on the current records. It does not call fn if the file is missing and the store is read-only.
func (s *Store) view(ctx context.Context, fn func(*bbolt.Tx, *head) error) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	err := s.file.view(ctx, func(tx *bbolt.Tx) error {
		h, err := s.readHead(tx)
		if err != nil {
			return err
		}
		return fn(tx, h)
	})
	if s.opts.ReadOnly && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return s.wrap("read", err)
}

// update runs fn in a transaction that is written if fn returns nil. It returns the new version.
func (s *Store) update(ctx context.Context, fn func(*bbolt.Tx, *head) error) (version, error) {
	if err := s.usable(ctx); err != nil {
		return version{}, err
	}
	return s.write(ctx, fn)
}

// write is update for a store that may be closing.
func (s *Store) write(ctx context.Context, fn func(*bbolt.Tx, *head) error) (version, error) {
	if s.opts.ReadOnly {
		return version{}, fmt.Errorf("write state %s: %w", s.opts.Path, state.ErrReadOnly)
	}
	at, err := s.file.update(ctx, func(tx *bbolt.Tx) error {
		h, err := s.readHead(tx)
		if err != nil {
			return err
		}
		return fn(tx, h)
	})
	return at, s.wrap("write", err)
}

// wrap adds the path and the next step to an error. It returns errors of the state.Store contract unchanged.
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
	_, refused := errors.AsType[state.InvalidError](err)
	return refused
}
