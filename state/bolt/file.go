package bolt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// file is the way to a bbolt file that is open only while a transaction runs. A daemon that wants to keep the file
// open for itself would put a type with the same two methods, view and update, in its place.
type file struct {
	path    string
	timeout time.Duration // for other processes' transactions
	log     *slog.Logger

	turn chan struct{} // holds one token: whoever has it may use the file and the fields below
	// checked is the version of the file whose pages are known to be sound. What this process wrote itself on top of
	// a sound version is sound.
	checked version
	// sealed is the version whose records are known to be right and all there. Only writers look at all of them.
	sealed version

	mu     sync.Mutex // guards peeked
	peeked peeked
}

// peeked is what peek has found.
type peeked struct {
	info os.FileInfo // nil: nothing yet
	when time.Time   // before the file was read
	at   version
}

// settledAge is how long ago a file must have been written for its time to say that it has not changed since: clocks of file
// systems are coarse, so a second write soon after the first may leave the same time.
const settledAge = time.Second

// holds reports whether the file cannot have changed since it was read.
func (p peeked) holds(now os.FileInfo) bool {
	return p.info != nil && os.SameFile(p.info, now) && p.info.Size() == now.Size() && p.info.ModTime().Equal(now.ModTime()) &&
		p.when.Sub(now.ModTime()) > settledAge
}

// version tells one state of one file from every other.
type version struct {
	dev, ino uint64
	txid     uint64
}

func newFile(path string, timeout time.Duration) *file {
	f := &file{path: path, timeout: timeout, log: slog.New(slog.DiscardHandler), turn: make(chan struct{}, 1)}
	f.turn <- struct{}{}
	return f
}

// view runs fn in a transaction that reads. What fn gets from tx is not valid after it returns.
func (f *file) view(ctx context.Context, fn func(*bbolt.Tx) error) error {
	return f.transact(ctx, reading, func(db *bbolt.DB, _ version) error {
		tx, err := db.Begin(false)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		return fn(tx)
	})
}

// update runs fn in a transaction that is on the disk when update returns nil, and gone when it returns an error. (When
// the disk itself fails while it is told to write the last page, nobody knows which.)
func (f *file) update(ctx context.Context, fn func(*bbolt.Tx) error) (made version, err error) {
	err = f.transact(ctx, writing, func(db *bbolt.DB, at version) error {
		tx, err := db.Begin(true)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if at != f.sealed {
			if err := checkAll(tx); err != nil {
				return err
			}
		}
		if err := fn(tx); err != nil {
			return err
		}
		at.txid = uint64(tx.ID())
		if err := tx.Commit(); err != nil {
			return err
		}
		f.checked, f.sealed, made = at, at, at
		return nil
	})
	return made, err
}

type intent bool

const (
	reading intent = false
	writing intent = true
)

func (f *file) transact(ctx context.Context, why intent, do func(*bbolt.DB, version) error) error {
	select {
	case <-f.turn:
		defer func() { f.turn <- struct{}{} }()
	case <-ctx.Done():
		return ctx.Err()
	}
	osFile, err := f.acquire(ctx, why)
	if err != nil {
		return err
	}
	defer release(osFile)
	err = f.guard(func() error {
		at, err := f.check(osFile, why)
		if err != nil {
			return err
		}
		db, err := openDB(osFile, why)
		if err != nil {
			return err
		}
		err = do(db, at)
		return errors.Join(err, db.Close())
	})
	if errors.Is(err, ErrDamaged) {
		f.checked, f.sealed = version{}, version{}
	}
	return err
}

// release gives the file's lock back when bbolt did not: after a panic its mapping stays, and while there is one,
// closing the file alone would leave it locked. Doing it twice is harmless.
func release(osFile *os.File) {
	if raw, err := osFile.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.Flock(int(fd), unix.LOCK_UN) })
	}
	_ = osFile.Close()
}

// guard turns a panic into an error. bbolt panics on inconsistent pages, and reading a mapped page beyond the end of a
// file that somebody has cut meanwhile is a fault. A bbolt.DB in which that happened is left to the garbage collector:
// its own Close would wait for ever for the transaction that never ended. A goroutine that works on a transaction's
// data needs a guard of its own.
func (f *file) guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			f.log.Debug("panic while using the state file", "path", f.path, "panic", r, "stack", string(debug.Stack()))
			err = damage("%v", r)
		}
	}()
	return fn()
}

func openDB(osFile *os.File, why intent) (*bbolt.DB, error) {
	return bbolt.Open(osFile.Name(), 0o600, &bbolt.Options{
		Timeout:      time.Second, // the lock is ours already
		ReadOnly:     why == reading,
		FreelistType: bbolt.FreelistArrayType,
		NoStatistics: true,
		OpenFile:     func(string, int, os.FileMode) (*os.File, error) { return osFile, nil },
	})
}

// acquire opens the file and waits for its lock: shared to read, exclusive to write. bbolt asks for the same lock
// on the same descriptor and gets it at once; waiting here ends with ctx and looks more often than bbolt does.
func (f *file) acquire(ctx context.Context, why intent) (*os.File, error) {
	deadline := time.Now().Add(f.timeout)
	for pause := 200 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		osFile, err := f.tryAcquire(why)
		if err != nil || osFile != nil {
			return osFile, err
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("another process has been using it for %s: %w", f.timeout, errBusy)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tryAcquire returns nil when another process has the lock, or the file was replaced while it was being opened.
func (f *file) tryAcquire(why intent) (*os.File, error) {
	if _, err := regular(f.path); err != nil {
		return nil, err
	}
	how, mode := unix.LOCK_SH, os.O_RDONLY
	if why == writing {
		how, mode = unix.LOCK_EX, os.O_RDWR
	}
	osFile, err := os.OpenFile(f.path, mode, 0)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(osFile.Fd()), how|unix.LOCK_NB)
	if err == nil && f.current(osFile) {
		return osFile, nil
	}
	osFile.Close()
	if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
		return nil, fmt.Errorf("lock: %w", err)
	}
	return nil, nil
}

func (f *file) current(osFile *os.File) bool {
	have, err := osFile.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(f.path)
	return err == nil && os.SameFile(have, now)
}

// regular refuses what must not even be opened: opening a pipe would wait for ever.
func regular(path string) (os.FileInfo, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, errDirectory
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("is not a file but %s: %w", info.Mode().Type(), errNotState)
	}
	return info, nil
}

// peek returns the version of the file without waiting for anybody: the zero version when there is no file. It opens the file
// only when it may have changed since the last peek.
func (f *file) peek() (version, error) {
	info, err := regular(f.path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return version{}, nil
		}
		return version{}, err
	}
	f.mu.Lock()
	last := f.peeked
	f.mu.Unlock()
	if last.holds(info) {
		return last.at, nil
	}
	found := peeked{info: info, when: time.Now()}
	osFile, err := os.Open(f.path)
	if err != nil {
		return version{}, err
	}
	defer osFile.Close()
	if found.at, _, err = versionOf(osFile); err != nil {
		return version{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.peeked = found
	return found.at, nil
}

func versionOf(osFile *os.File) (version, metas, error) {
	info, err := osFile.Stat()
	if err != nil {
		return version{}, metas{}, err
	}
	m, err := readMetas(osFile, info.Size())
	if err != nil {
		return version{}, metas{}, err
	}
	at := version{txid: m.newest.txid}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		at.dev, at.ino = uint64(sys.Dev), sys.Ino //nolint:unconvert // narrower on some systems
	}
	return at, m, nil
}

// check makes sure that bbolt may use the file.
func (f *file) check(osFile *os.File, why intent) (version, error) {
	at, m, err := versionOf(osFile)
	if err != nil {
		return version{}, err
	}
	if m.damaged {
		// The other meta page is one commit older or newer. Reading what is left beats nothing, writing on top of it
		// would bury what was lost.
		if why == writing {
			return version{}, damage("one of its two meta pages is broken, so its newest commit may be missing")
		}
		f.log.Warn("state file has a broken meta page; what is read may lack the newest commit", "path", f.path)
	}
	if at == f.checked {
		return at, nil
	}
	if err := checkPages(osFile, m.newest); err != nil {
		return version{}, err
	}
	if !m.damaged {
		f.checked = at
	}
	return at, nil
}
