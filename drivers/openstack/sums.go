package openstack

import (
	"context"
	"crypto/md5" //nolint:gosec // Glance's checksum
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/npctl/npctl/drivers"
)

// sums are taken of an image while it is sent.
type sums struct {
	size   int64
	sha256 hash.Hash
	md5    hash.Hash
}

func newSums() *sums {
	return &sums{sha256: sha256.New(), md5: md5.New()} //nolint:gosec // Glance's checksum
}

func (s *sums) write(p []byte) {
	s.size += int64(len(p))
	s.sha256.Write(p)
	s.md5.Write(p)
}

func text(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// check compares what was read with what the caller said the file holds.
func (s *sums) check(spec drivers.ImageSpec) error {
	changed := func(what, want, got string) error {
		return fmt.Errorf("%w: the image file is not what was built: %s should be %s and is %s; build it again", drivers.ErrRejected, what, want, got)
	}
	switch {
	case spec.Size > 0 && spec.Size != s.size:
		return changed("its size", fmt.Sprint(spec.Size), fmt.Sprint(s.size))
	case spec.SHA256 != "" && !strings.EqualFold(spec.SHA256, text(s.sha256)):
		return changed("its SHA-256", spec.SHA256, text(s.sha256))
	case spec.MD5 != "" && !strings.EqualFold(spec.MD5, text(s.md5)):
		return changed("its MD5", spec.MD5, text(s.md5))
	}
	return nil
}

// compare compares what was sent with what Glance has. Glance tells an MD5, a hash of its choice (SHA-512 unless its
// operator chose), or both; only a Glance without MD5 makes a second pass over the file necessary.
func (s *sums) compare(i image, content io.ReadSeeker) error {
	damaged := func(what, want, got string) error {
		return fmt.Errorf("the image was damaged on its way: %s sent %s, stored %s", what, want, got)
	}
	switch {
	case i.Size != s.size:
		return damaged("size", fmt.Sprint(s.size), fmt.Sprint(i.Size))
	case i.Checksum != "" && !strings.EqualFold(i.Checksum, text(s.md5)):
		return damaged("MD5", text(s.md5), i.Checksum)
	case i.HashAlgo == "sha256" && !strings.EqualFold(i.Hash, text(s.sha256)):
		return damaged("SHA-256", text(s.sha256), i.Hash)
	case i.Checksum != "" || i.Hash == "" || i.HashAlgo != "sha512":
		return nil
	}
	second := sha512.New()
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read the image again for its SHA-512: %w", err)
	}
	if _, err := io.Copy(second, content); err != nil {
		return fmt.Errorf("read the image again for its SHA-512: %w", err)
	}
	if !strings.EqualFold(i.Hash, text(second)) {
		return damaged("SHA-512", text(second), i.Hash)
	}
	return nil
}

// uploadReader hashes what is sent, tells how far it is, and shows the watch that bytes still move. The transport may
// go on reading after it has returned, so reading can be stopped.
type uploadReader struct {
	watch    *stallWatch
	progress func(int64)
	size     int64

	mu      sync.Mutex
	from    io.Reader // guarded by mu
	sums    *sums     // guarded by mu
	stopped bool      // guarded by mu
}

func (r *uploadReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return 0, io.ErrClosedPipe
	}
	n, err := r.from.Read(p)
	if n > 0 {
		r.sums.write(p[:n])
		if r.progress != nil {
			r.progress(r.sums.size)
		}
	}
	if err == io.EOF && r.sums.size < r.size {
		return n, fmt.Errorf("%w: the image file is not what was built: it ends after %d of %d bytes; build it again", drivers.ErrRejected, r.sums.size, r.size)
	}
	if err == io.EOF || r.size > 0 && r.sums.size >= r.size {
		r.watch.reset(answerLimit) // Glance may need its time to store the end
	} else {
		r.watch.reset(stallLimit)
	}
	return n, err
}

func (r *uploadReader) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
}

// stallWatch ends a context when nothing has happened for too long.
type stallWatch struct {
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

var errStalled = errors.New("the cloud stopped taking bytes")

func watchStall(ctx context.Context) (context.Context, *stallWatch) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &stallWatch{timer: time.AfterFunc(stallLimit, func() { cancel(errStalled) }), cancel: cancel}
}

func (w *stallWatch) reset(d time.Duration) { w.timer.Reset(d) }

func (w *stallWatch) stop() {
	w.timer.Stop()
	w.cancel(nil)
}
