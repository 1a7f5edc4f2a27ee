package imagefile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// block is the smallest hole worth leaving.
const block = 4 << 10

var zeros [block]byte

// SparseWriter writes a stream into a new file and leaves holes where the stream is zero.
type SparseWriter struct {
	file *os.File
	at   int64 // position in the stream; holes before it are not in the file yet
}

// NewSparseWriter writes to file from its start; the file must be empty. Finish must be called in the end.
func NewSparseWriter(file *os.File) *SparseWriter { return &SparseWriter{file: file} }

// Write implements io.Writer.
func (w *SparseWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		size := min(len(p), int(block-w.at%block))
		run := w.extent(p, size)
		if !isZero(p[:size]) {
			if _, err := w.file.WriteAt(p[:run], w.at); err != nil {
				return n - len(p), err
			}
		}
		w.at += int64(run)
		p = p[run:]
	}
	return n, nil
}

// extent is how many bytes of p belong together with its first block: all zero, or all to be written.
func (w *SparseWriter) extent(p []byte, first int) int {
	zero := isZero(p[:first])
	run := first
	for run < len(p) {
		size := min(len(p)-run, block)
		if isZero(p[run:run+size]) != zero {
			break
		}
		run += size
	}
	return run
}

func isZero(p []byte) bool { return bytes.Equal(p, zeros[:len(p)]) }

// Finish gives the file its full length, should it end in a hole.
func (w *SparseWriter) Finish() error { return w.file.Truncate(w.at) }

// Copy copies a file with its holes to a new file, which gets its name when it is complete. Existing files stay.
func Copy(ctx context.Context, from, to string, progress func(done, total int64)) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("copy %s: %s: %w", from, to, os.ErrExist)
	}
	target, err := os.OpenFile(PartName(to), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = Discard(to)
		}
	}()
	if err := errors.Join(copyData(ctx, source, target, progress), target.Close()); err != nil {
		return fmt.Errorf("copy %s to %s: %w", from, to, err)
	}
	return Publish(to)
}

// copyData walks the parts of source that hold data.
func copyData(ctx context.Context, source, target *os.File, progress func(done, total int64)) error {
	info, err := source.Stat()
	if err != nil {
		return err
	}
	total := info.Size()
	for at := int64(0); at < total; {
		begin, end, err := nextData(source, at, total)
		if err != nil {
			return err
		}
		for at = begin; at < end; {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			n, err := copyRange(source, target, at, min(end-at, 16<<20))
			if err != nil {
				return err
			}
			at += n
			if progress != nil {
				progress(at, total)
			}
		}
	}
	return target.Truncate(total)
}

// copyRange lets the kernel copy (or share) the bytes where it can.
func copyRange(source, target *os.File, at, size int64) (int64, error) {
	if _, err := source.Seek(at, io.SeekStart); err != nil {
		return 0, err
	}
	if _, err := target.Seek(at, io.SeekStart); err != nil {
		return 0, err
	}
	n, err := io.CopyN(target, source, size)
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: the file shrank while it was read", io.ErrUnexpectedEOF)
	}
	return n, err
}
