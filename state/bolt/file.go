package bolt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"

	"github.com/npctl/npctl/internal/host"
	"github.com/npctl/npctl/internal/waits"
)

// file accesses a bbolt file that is open only during a transaction; see
// docs/decisions/0002-bolt-opened-per-transaction.md.
type file struct {
	path    string
	timeout time.Duration // maximum wait for other processes' transactions
	log     *slog.Logger

	turn chan struct{} // holds one token; its owner may use the file and the fields below
	// checked is the version of the file that checkPages last accepted. A commit of this process on top of a valid
	// version is valid.
	checked version
	// verified is the version of the file that checkAll last accepted, or that this process wrote. Only writers call
	// checkAll.
	verified version
}

// version identifies one version of one file.
type version struct {
	dev, ino uint64
	txid     uint64
}

func newFile(path string, timeout time.Duration) *file {
	f := &file{path: path, timeout: timeout, log: slog.New(slog.DiscardHandler), turn: make(chan struct{}, 1)}
	f.turn <- struct{}{}
	return f
}

// update runs fn in a transaction. It is on disk when update returns nil, and discarded when update returns an error.
// If the disk fails while it writes the last page, the outcome is unknown.
func (f *file) update(ctx context.Context, fn func(*bbolt.Tx) error) (made version, err error) {
	err = f.transact(ctx, writing, func(tx *bbolt.Tx, at version) error {
		if at != f.verified {
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
		f.checked, f.verified, made = at, at, at
		return nil
	})
	return made, err
}

type accessMode bool

const (
	reading accessMode = false
	writing accessMode = true
)

// transact runs do in a transaction on the version of the file, and rolls it back unless do commits it. Data from the
// transaction is not valid after do returns.
func (f *file) transact(ctx context.Context, why accessMode, do func(*bbolt.Tx, version) error) error {
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
	err = f.recoverPanic(func() error {
		at, err := f.check(osFile, why)
		if err != nil {
			return err
		}
		db, err := bbolt.Open(osFile.Name(), 0o600, &bbolt.Options{
			Timeout:      time.Second, // this process already has the lock
			ReadOnly:     why == reading,
			FreelistType: bbolt.FreelistArrayType,
			NoStatistics: true,
			OpenFile:     func(string, int, os.FileMode) (*os.File, error) { return osFile, nil },
		})
		if err != nil {
			return err
		}
		tx, err := db.Begin(why == writing)
		if err == nil {
			err = func() error {
				defer func() { _ = tx.Rollback() }() // has no effect after a commit
				return do(tx, at)
			}()
		}
		return errors.Join(err, db.Close())
	})
	if errors.Is(err, ErrDamaged) {
		f.checked, f.verified = version{}, version{}
	}
	return err
}

// release releases the file lock if bbolt did not: after a panic its mapping remains, which keeps the file locked even
// when the descriptor is closed. A second call is harmless.
func release(osFile *os.File) {
	host.Unlock(osFile)
	_ = osFile.Close()
}

// recoverPanic converts a panic into an error. bbolt panics on inconsistent pages, and a read of a mapped page beyond
// the end of a truncated file is a fault. The bbolt.DB is then left to the garbage collector: its Close would wait
// forever for the transaction, which never ends. A goroutine that uses data of a transaction needs its own
// recoverPanic.
func (f *file) recoverPanic(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			f.log.Debug("panic while using the state file", "path", f.path, "panic", r, "stack", string(debug.Stack()))
			err = damage("%v", r)
		}
	}()
	return fn()
}

// acquire opens the file and waits for its lock: shared to read, exclusive to write. bbolt then requests the same lock
// on the same descriptor and gets it at once. Unlike the wait of bbolt, this one ends with ctx, and it polls more
// often.
func (f *file) acquire(ctx context.Context, why accessMode) (*os.File, error) {
	deadline := time.Now().Add(f.timeout)
	for pause := 200 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		osFile, err := f.tryAcquire(why)
		if err != nil || osFile != nil {
			return osFile, err
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("another process has been using it for %s: %w", f.timeout, errBusy)
		}
		if waits.Sleep(ctx, pause) != nil {
			return nil, ctx.Err()
		}
	}
}

// tryAcquire returns nil when another process has the lock, or when the file was replaced while it was opened.
func (f *file) tryAcquire(why accessMode) (*os.File, error) {
	if err := regular(f.path); err != nil {
		return nil, err
	}
	mode := os.O_RDONLY
	if why == writing {
		mode = os.O_RDWR
	}
	osFile, err := os.OpenFile(f.path, mode, 0)
	if err != nil {
		return nil, err
	}
	locked, err := host.TryLock(osFile, why == writing)
	if locked {
		have, openErr := osFile.Stat()
		now, pathErr := os.Stat(f.path)
		if openErr == nil && pathErr == nil && os.SameFile(have, now) {
			return osFile, nil
		}
	}
	osFile.Close()
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	return nil, nil
}

// regular rejects files that must not be opened: opening a pipe would block forever.
func regular(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return errDirectory
	case !info.Mode().IsRegular():
		return fmt.Errorf("is not a file but %s: %w", info.Mode().Type(), errNotState)
	}
	return nil
}

// peek returns the version of the file without waiting for a lock, or the zero version if the file is missing.
func (f *file) peek() (version, error) {
	if err := regular(f.path); errors.Is(err, fs.ErrNotExist) {
		return version{}, nil
	} else if err != nil {
		return version{}, err
	}
	osFile, err := os.Open(f.path)
	if err != nil {
		return version{}, err
	}
	defer osFile.Close()
	at, _, err := versionOf(osFile)
	return at, err
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
	at.dev, at.ino = identityOf(osFile, info)
	return at, m, nil
}

// check verifies that bbolt can use the file safely.
func (f *file) check(osFile *os.File, why accessMode) (version, error) {
	at, m, err := versionOf(osFile)
	if err != nil {
		return version{}, err
	}
	if m.damaged {
		// The other meta page is one commit older or newer. A reader may still use it; a writer would overwrite the
		// pages of the lost commit.
		if why == writing {
			return version{}, damage("one of its two meta pages is broken, so its newest commit may be missing")
		}
		f.log.Warn("state file has a broken meta page; the newest commit may be missing", "path", f.path)
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
