package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
)

// fileSize is the maximum size in bytes of a certificate or token file.
const fileSize = 1 << 20

// readEvery is the minimum time between two reads of a file that may have been replaced.
const readEvery = 2 * time.Second

// reloadedFile is a value from files, which are read again every readEvery while the value is used. Contents are
// compared, not sizes and times, to detect a change within one tick of the file system's clock. A failed read keeps the
// value, unless onError changes it, and is repeated.
type reloadedFile[T any] struct {
	what    string                    // name of the value, for the log
	read    func() (T, []byte, error) // returns the value and the contents of its files
	onError func(error) (T, bool)     // the value after a failed read, if that changes it; may be nil
	log     *slog.Logger

	mu       sync.Mutex // guards the fields below
	value    T
	contents []byte
	failure  string // error of the newest read; empty: it succeeded
	checked  time.Time
}

// open reads the value for the first time. Its error is final.
func (r *reloadedFile[T]) open() (err error) {
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.value, r.contents, err = r.read()
	r.checked = time.Now()
	return err
}

// current returns the value, after reading the files if that is due.
func (r *reloadedFile[T]) current() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.checked) < readEvery {
		return r.value
	}
	r.checked = time.Now()
	value, contents, err := r.read()
	if err != nil {
		r.fail(err)
		return r.value
	}
	if r.failure != "" || !bytes.Equal(contents, r.contents) {
		r.log.Info("reloaded "+r.what, "changed", !bytes.Equal(contents, r.contents))
		r.value, r.contents, r.failure = value, contents, ""
	}
	return r.value
}

// fail logs a failed read, once for each error.
func (r *reloadedFile[T]) fail(err error) {
	consequence := "the previous contents stay in effect"
	if r.onError != nil {
		if value, changed := r.onError(err); changed {
			r.value, r.contents, consequence = value, nil, "no token is valid now"
		}
	}
	if r.failure != err.Error() {
		r.log.Error("cannot read "+r.what+"; "+consequence, "error", err)
	}
	r.failure = err.Error()
}

// readSmall reads a regular file of at most fileSize bytes.
func readSmall(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // only read
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is not a regular file", path), err)
	}
	text, err := io.ReadAll(io.LimitReader(file, fileSize+1))
	if err == nil && len(text) > fileSize {
		err = fmt.Errorf("%s has more than %d bytes", path, fileSize)
	}
	return text, err
}
