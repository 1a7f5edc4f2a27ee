// Package bolt is a state.Store that keeps npctl's records in one bbolt file, without a server.
//
// The file holds three buckets:
//
//	npctl    "head": schema, lineage, serial, role, hash key, ID sequences, number of locks and of records of each kind
//	records  one bucket for each kind, from ID to record
//	locks    from the name of a lock to its holder
//
// Every value has a checksum: revision (8 bytes), CRC-32C of bucket name, key, revision and content (4 bytes), content
// (JSON).
//
// While bbolt has a file open for writing, its lock excludes all other processes, even readers. The store therefore
// opens the file for each transaction and closes it afterwards, so that several processes can use it. A record in the
// locks bucket prevents two of them from applying at the same time. See
// docs/decisions/0002-bolt-opened-per-transaction.md.
//
// bbolt trusts its pages: a damaged page makes it panic, loop or overwrite live data. Therefore the store checks every
// page of a new version before a transaction (check.go), and converts the remaining panics into errors.
package bolt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/zclconf/go-cty/cty"
	"go.etcd.io/bbolt"

	"github.com/npctl/npctl/internal/host"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
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
	err := s.file.transact(ctx, reading, func(tx *bbolt.Tx, _ version) error {
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

// create writes a complete file under a temporary name and links it to its path. No process sees a partial file, and
// two processes that create it at the same time use the same one.
func (s *Store) create() error {
	dir := filepath.Dir(s.opts.Path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(dir, "."+filepath.Base(s.opts.Path)+".new-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	if err := temp.Close(); err != nil {
		return err
	}
	if err := s.initialize(temp.Name()); err != nil {
		return err
	}
	if err := os.Link(temp.Name(), s.opts.Path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return host.SyncDir(dir)
}

// initialize writes an empty store with a new lineage.
func (s *Store) initialize(path string) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: s.opts.Timeout, NoStatistics: true})
	if err != nil {
		return err
	}
	h := &head{Schema: schemaVersion, WrittenBy: s.opts.Version, Lineage: uuid.NewString(), Role: s.opts.Role, HashKey: []byte(resources.NewHashKey()),
		Sequences: map[resources.Kind]uint64{}, Counts: map[resources.Kind]int{}}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{recordsBucket, locksBucket} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return h.save(tx)
	})
	return errors.Join(err, db.Close())
}

// ErrDamaged reports damage to a file that was a valid state file.
var ErrDamaged = errors.New("the file is damaged")

var (
	errBusy      = errors.New("busy")
	errDirectory = errors.New("is a directory")
	errNotState  = errors.New("not an npctl state file")
	errNewer     = errors.New("newer schema")
	errReplaced  = errors.New("another state")
	errEmpty     = errors.New("the file is empty")
)

// damage returns an ErrDamaged with a description.
func damage(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// hints holds the next step for the user, by error.
var hints = []struct {
	err  error
	hint string
}{
	{ErrDamaged, "restore it from a backup, or move it away and run `npctl state push BACKUP.json`"},
	{errEmpty, "a full disk may be the cause: restore it from a backup, or remove it to start with an empty state"},
	{errNotState, "check the path of the state, or move the file away"},
	{errDirectory, "specify the path of a file in it, such as npctl.db"},
	{errBusy, "wait for it to finish, or stop the hanging process"},
	{syscall.ENOSPC, "the disk is full: free some space and try again, nothing was changed"},
	{syscall.EDQUOT, "the disk quota is used up: free some space and try again, nothing was changed"},
	{syscall.EFBIG, "the file size limit is too low (see `ulimit -f`): nothing was changed"},
	{syscall.EROFS, "the file system is mounted read-only: choose a path elsewhere"},
	{fs.ErrPermission, "run npctl as the user who owns the state, or change the owner of the file and its directory"},
	{fs.ErrNotExist, "the file existed when npctl started: restore it or restart npctl"},
	{syscall.EIO, "the disk has errors: check the kernel log, and restore the file from a backup if it is broken"},
}

// explain adds the next step for the user to an error.
func explain(err error) error {
	for _, h := range hints {
		if isCause(err, h.err) {
			return fmt.Errorf("%w: %s", err, h.hint)
		}
	}
	return err
}

// isCause reports whether cause is in the chain of err. It also compares texts, since bbolt formats some errors without
// wrapping them.
func isCause(err, cause error) bool {
	if errors.Is(err, cause) {
		return true
	}
	var errno syscall.Errno
	return errors.As(cause, &errno) && strings.HasSuffix(err.Error(), ": "+errno.Error())
}

// DefaultPath is the default path of the state, relative to the directory of the configuration.
const DefaultPath = "npctl.db"

// Schema describes the `state "bolt"` block.
func Schema() schema.Block {
	return schema.Block{
		Doc: "Keeps the state in one file on one machine, without a server.",
		Attributes: []schema.Attribute{{
			Name:    "path",
			Doc:     "Path of the file. A relative path is relative to the configuration directory. npctl creates the file and its directory if they do not exist, with access for the user only.",
			Type:    cty.String,
			Default: cty.StringVal(DefaultPath),
			Check:   checkPath,
		}},
	}
}

func checkPath(path cty.Value) error {
	if path.AsString() == "" {
		return errors.New("the path is empty: omit the attribute for " + DefaultPath)
	}
	return nil
}
