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

// fileSize limits what is read of a file with certificates or tokens.
const fileSize = 1 << 20

// readEvery is the time between two reads of a file that may have been replaced.
const readEvery = 2 * time.Second

// reloading is a value from files, which are read again every readEvery while the value is used. Their contents are
// compared, not their sizes and times: a change within one tick of the file system's clock counts, and a read that
// failed is repeated. A read that fails leaves the value as it is.
type reloading[T any] struct {
	what string                    // the value is, for the log
	read func() (T, []byte, error) // returns the value and what it was made from
	gone func(error) (T, bool)     // the value after a read that failed, if that changes it; may be nil
	log  *slog.Logger

	mu       sync.Mutex // guards what follows
	value    T
	contents []byte
	failure  string // of the newest read
	checked  time.Time
}

// open reads the value for the first time.
func (r *reloading[T]) open() (err error) {
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.value, r.contents, err = r.read()
	r.checked = time.Now()
	return err
}

// current returns the value, after reading it again when that is due.
func (r *reloading[T]) current() T {
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
		r.log.Info("read "+r.what+" again", "changed", !bytes.Equal(contents, r.contents))
		r.value, r.contents, r.failure = value, contents, ""
	}
	return r.value
}

// fail logs a read that failed, once for each reason.
func (r *reloading[T]) fail(err error) {
	consequence := "the previous contents stay in effect"
	if r.gone != nil {
		if value, changed := r.gone(err); changed {
			r.value, r.contents, consequence = value, nil, "none is valid any more"
		}
	}
	if r.failure != err.Error() {
		r.log.Error("cannot read "+r.what+"; "+consequence, "error", err)
	}
	r.failure = err.Error()
}

// readSmall reads a file that is expected to be small.
func readSmall(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // only read
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is no file", path), err)
	}
	text, err := io.ReadAll(io.LimitReader(file, fileSize+1))
	if err == nil && len(text) > fileSize {
		err = fmt.Errorf("%s has more than %d bytes", path, fileSize)
	}
	return text, err
}
