package openstack

import (
	"context"
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
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/internal/imagefile"
)

// Verification of an upload, with one read of the file and usually without hashing:
//
//  1. The caller computed the file's sums when it was created. If Glance reports one of them, the file, the transfer
//     and the store are correct. Hashing here would prove nothing more and take as much time as everything else.
//  2. If the caller does not know the sums, they are computed from the bytes sent.
//  3. If Glance reports another sum, or none to compare, the file is read once more. That distinguishes a file that
//     changed after the build, which requires a new build, from an image that was damaged in transfer.

// sentBytes is the size and the sums of the bytes of an upload.
type sentBytes struct {
	imagefile.Sums
}

// check compares the number of bytes, and the sums if they were computed, with the ImageSpec.
func (s sentBytes) check(spec drivers.ImageSpec) error {
	switch {
	case spec.Size > 0 && spec.Size != s.Size:
		return cloudkit.Changed("its size", fmt.Sprint(spec.Size), fmt.Sprint(s.Size))
	case spec.SHA256 != "" && !strings.EqualFold(spec.SHA256, s.SHA256):
		return cloudkit.Changed("its SHA-256", spec.SHA256, s.SHA256)
	case spec.MD5 != "" && !strings.EqualFold(spec.MD5, s.MD5):
		return cloudkit.Changed("its MD5", spec.MD5, s.MD5)
	}
	return nil
}

func damaged(what, want, got string) error {
	return fmt.Errorf("the image was damaged in transfer: %s sent %s, stored %s", what, want, got)
}

// verify compares the sent bytes with Glance's image.
func (s sentBytes) verify(ctx context.Context, i image, content io.ReadSeeker) error {
	if i.Size != s.Size {
		return damaged("size", fmt.Sprint(s.Size), fmt.Sprint(i.Size))
	}
	different, compared := s.compare(i)
	if compared && different == nil {
		return nil
	}
	strong := sha512.New()
	again, err := readAgain(ctx, content, strong)
	if err != nil {
		return fmt.Errorf("read the image again for its checksums: %w", err)
	}
	if err := again.check(drivers.ImageSpec{Size: s.Size, SHA256: s.SHA256, MD5: s.MD5}); err != nil {
		return err
	}
	if sum := hex.EncodeToString(strong.Sum(nil)); i.HashAlgo == "sha512" && i.Hash != "" && !strings.EqualFold(i.Hash, sum) {
		return damaged("SHA-512", sum, i.Hash)
	}
	return different
}

// compare compares the sums with Glance's. Glance reports an MD5, a hash of its operator's choice (default SHA-512),
// both, or none.
func (s sentBytes) compare(i image) (different error, compared bool) {
	switch {
	case i.Checksum != "" && !strings.EqualFold(i.Checksum, s.MD5):
		return damaged("MD5", s.MD5, i.Checksum), true
	case i.HashAlgo == "sha256" && i.Hash != "" && !strings.EqualFold(i.Hash, s.SHA256):
		return damaged("SHA-256", s.SHA256, i.Hash), true
	}
	return nil, i.Checksum != "" || i.HashAlgo == "sha256" && i.Hash != ""
}

func readAgain(ctx context.Context, content io.ReadSeeker, also hash.Hash) (sentBytes, error) {
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return sentBytes{}, err
	}
	sums, err := imagefile.Hash(ctx, io.TeeReader(content, also), nil)
	return sentBytes{sums}, err
}

// uploadReader counts the sent bytes, hashes them if their sums are unknown, reports progress, and resets the stall
// watch. The transport may read after it has returned, so the reader can be stopped.
type uploadReader struct {
	watch    *stallWatch
	progress func(int64)
	size     int64
	known    imagefile.Sums

	mu    sync.Mutex
	from  io.Reader         // guarded by mu
	sent  int64             // guarded by mu
	sums  *imagefile.Hasher // guarded by mu; nil when the sums are known
	ended bool              // guarded by mu
}

func newUploadReader(spec drivers.ImageSpec, from io.Reader, watch *stallWatch) *uploadReader {
	r := &uploadReader{from: from, watch: watch, progress: spec.Progress, size: spec.Size}
	if spec.SHA256 != "" && spec.MD5 != "" {
		r.known = imagefile.Sums{SHA256: spec.SHA256, MD5: spec.MD5}
	} else {
		r.sums = imagefile.NewHasher()
	}
	return r
}

func (r *uploadReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return 0, io.ErrClosedPipe
	}
	n, err := r.from.Read(p)
	r.sent += int64(n)
	if r.sums != nil {
		_, _ = r.sums.Write(p[:n])
	}
	if n > 0 && r.progress != nil {
		r.progress(r.sent)
	}
	if err == io.EOF && r.sent < r.size {
		return n, fmt.Errorf("%w: the image file changed after its build: it ends after %d of %d bytes; build it again", drivers.ErrRejected, r.sent, r.size)
	}
	if err == io.EOF || r.size > 0 && r.sent >= r.size {
		r.watch.reset(answerLimit) // Glance may need time to store the last bytes
	} else {
		r.watch.reset(stallLimit)
	}
	return n, err
}

// end stops reading and returns the result. A second call does nothing.
func (r *uploadReader) end() sentBytes {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended && r.sums != nil {
		r.known = r.sums.Sums()
	}
	r.ended = true
	r.known.Size = r.sent
	return sentBytes{r.known}
}

// stallWatch ends a context after a period without progress.
type stallWatch struct {
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

var errStalled = errors.New("the connection to the cloud transferred no data")

func watchStall(ctx context.Context) (context.Context, *stallWatch) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &stallWatch{timer: time.AfterFunc(stallLimit, func() { cancel(errStalled) }), cancel: cancel}
}

func (w *stallWatch) reset(d time.Duration) { w.timer.Reset(d) }

func (w *stallWatch) stop() {
	w.timer.Stop()
	w.cancel(nil)
}
