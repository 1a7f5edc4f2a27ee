package azure

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // Azure's checksum of a request
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
)

// An address with its authorization gives access to the pages of a disk, by the Put Page call of Azure Storage. Pages that
// are not written are zero. Azure compares each range with its MD5.
const (
	rangeSize      = 4 << 20 // the largest range
	maxWriters     = 16      // ranges that are in flight at a time
	storageVersion = "2021-12-02"
)

// pageWriter writes the pages of one disk.
type pageWriter struct {
	transport http.RoundTripper
	access    string // the address, a secret
	disk      string
	buffers   sync.Pool
	sent      cloudkit.Sent // without the tail
}

// writePages reads the content once: one goroutine reads and hashes it, others send its ranges. It verifies the content
// before it returns.
func writePages(ctx context.Context, transport http.RoundTripper, access, disk string, spec drivers.ImageSpec, content io.Reader, tail []byte) error {
	w := &pageWriter{transport: transport, access: access, disk: disk, sent: cloudkit.Sent{Report: spec.Progress, Size: spec.Size}, buffers: sync.Pool{New: func() any { return new([rangeSize]byte) }}}
	sums := cloudkit.NewFileSums()
	file := io.MultiReader(io.TeeReader(content, sums), bytes.NewReader(tail))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxWriters)
	readErr := w.read(ctx, group, file)
	writeErr := group.Wait()
	if readErr != nil && (writeErr == nil || !errors.Is(readErr, context.Canceled)) {
		return readErr
	}
	if writeErr != nil {
		return writeErr
	}
	return sums.Check(spec)
}

// read starts a writer for each range that is not zero.
func (w *pageWriter) read(ctx context.Context, group *errgroup.Group, file io.Reader) error {
	for offset := int64(0); ; offset += rangeSize {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		buffer := w.buffers.Get().(*[rangeSize]byte)
		n, err := io.ReadFull(file, buffer[:])
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return fmt.Errorf("read the image: %w", err)
		}
		pages := buffer[:n-n%sectorSize] // only a file that changed ends within a page
		if bytes.Equal(pages, zeros[:len(pages)]) {
			w.buffers.Put(buffer)
			w.sent.Add(n)
		} else {
			group.Go(func() error {
				defer w.buffers.Put(buffer)
				if err := w.put(ctx, offset, pages); err != nil {
					return err
				}
				w.sent.Add(n)
				return nil
			})
		}
		if last {
			return nil
		}
	}
}

var zeros [rangeSize]byte

// rangeTimeout is the limit of one attempt.
const rangeTimeout = 2 * time.Minute

func (w *pageWriter) put(ctx context.Context, offset int64, pages []byte) error {
	sum := md5.Sum(pages) //nolint:gosec // Azure's checksum of a request
	checksum := base64.StdEncoding.EncodeToString(sum[:])
	return cloudkit.SendPart(ctx, rangeTimeout, func(ctx context.Context) error { return w.send(ctx, offset, pages, checksum) })
}

// send writes one range. Errors of the transport contain the address, so they do not appear.
func (w *pageWriter) send(ctx context.Context, offset int64, pages []byte, checksum string) error {
	doing := fmt.Sprintf("write bytes %d to %d of disk %s", offset, offset+int64(len(pages))-1, w.disk)
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, w.access+"&comp=page", bytes.NewReader(pages))
	if err != nil {
		return fmt.Errorf("%s: %w: Azure returns no valid address", doing, drivers.ErrRejected)
	}
	for name, value := range map[string]string{
		"X-Ms-Version": storageVersion, "X-Ms-Page-Write": "update", "X-Ms-Range": fmt.Sprintf("bytes=%d-%d", offset, offset+int64(len(pages))-1), "Content-Md5": checksum,
	} {
		request.Header.Set(name, value)
	}
	answer, err := w.transport.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("%s: %w: %s", doing, drivers.ErrUnavailable, strings.ReplaceAll(err.Error(), w.access, "…"))
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // so that the connection stays usable
	if answer.StatusCode == http.StatusCreated {
		return nil
	}
	code := answer.Header.Get("X-Ms-Error-Code")
	kind := drivers.ErrUnavailable
	if s := answer.StatusCode; s >= 400 && s < 500 && s != http.StatusRequestTimeout && s != http.StatusTooManyRequests && code != "Md5Mismatch" {
		kind = drivers.ErrRejected
	}
	return fmt.Errorf("%s: %w: %s %s", doing, kind, answer.Status, code)
}
