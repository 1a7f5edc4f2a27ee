package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/npctl/npctl/internal/waits"
)

// logFollower copies a log until the process that writes it has ended.
type logFollower struct {
	path   string
	every  time.Duration
	to     io.WriteCloser
	ended  func(context.Context) (bool, error)
	offset int64
}

// run copies the last lines, all of them if lines is negative, and then the lines that follow.
func (f *logFollower) run(ctx context.Context, lines int) error {
	if err := f.begin(lines); err != nil {
		return err
	}
	for {
		ended, err := f.ended(ctx) // before copy, so that copy gets everything that was written before the end
		if err != nil {
			return err
		}
		if err := f.copy(ctx); err != nil {
			return err
		}
		if ended {
			return f.to.Close()
		}
		if err := waits.Sleep(ctx, f.every); err != nil {
			return err
		}
	}
}

// open opens the log. It returns nil if the log does not exist yet.
func (f *logFollower) open() (*os.File, error) {
	file, err := os.Open(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("open log: %w", err)
	}
	return file, nil
}

// begin finds the start offset. It is 0 if the log does not exist yet.
func (f *logFollower) begin(lines int) error {
	file, err := f.open()
	if file == nil {
		return err
	}
	defer file.Close() //nolint:errcheck // read-only file
	if lines < 0 {
		return nil
	}
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	f.offset, err = lastLines(file, info.Size(), lines)
	return err
}

// copy writes the part of the log after the offset. A log that has become shorter was started again, so copy reads it
// from the start.
func (f *logFollower) copy(ctx context.Context) error {
	file, err := f.open()
	if file == nil {
		return err
	}
	defer file.Close() //nolint:errcheck // read-only file
	if info, err := file.Stat(); err == nil && info.Size() < f.offset {
		f.offset = 0
	}
	rest := io.NewSectionReader(file, f.offset, 1<<62)
	n, err := io.Copy(f.to, readerFunc(func(p []byte) (int, error) { // cancel the copy of a large log
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return rest.Read(p)
	}))
	f.offset += n
	if err != nil {
		return fmt.Errorf("print log: %w", err)
	}
	return nil
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// lastLines returns the offset of the last n lines. It reads backwards from the end.
func lastLines(r io.ReaderAt, size int64, n int) (int64, error) {
	if n == 0 {
		return size, nil
	}
	block := make([]byte, 32<<10)
	end := size
	for first := true; end > 0; {
		from := max(end-int64(len(block)), 0)
		part := block[:end-from]
		if _, err := r.ReadAt(part, from); err != nil && !errors.Is(err, io.EOF) {
			return 0, fmt.Errorf("read log: %w", err)
		}
		for i := len(part) - 1; i >= 0; i-- {
			lastByte := first
			first = false
			if part[i] != '\n' || lastByte { // a line break at the end of the log ends its last line
				continue
			}
			if n--; n <= 0 {
				return from + int64(i) + 1, nil
			}
		}
		end = from
	}
	return 0, nil
}

// longestLine is the maximum size of a buffered line in bytes; a longer line is written in parts.
const longestLine = 64 << 10

// lineWriter calls line with each line written to it, without the line break.
type lineWriter struct {
	line    func(string) error
	partial []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		take := p
		if i >= 0 {
			take = p[:i]
		}
		if room := longestLine - len(w.partial); len(take) > room {
			take, i = take[:room], -1
		}
		w.partial = append(w.partial, take...)
		p = p[len(take):]
		if i >= 0 {
			p = p[1:]
		}
		if i >= 0 || len(w.partial) == longestLine {
			if err := w.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func (w *lineWriter) flush() error {
	text := string(bytes.TrimSuffix(w.partial, []byte("\r")))
	w.partial = w.partial[:0]
	return w.line(text)
}

// Close writes the last line if it has no line break.
func (w *lineWriter) Close() error {
	if len(w.partial) == 0 {
		return nil
	}
	return w.flush()
}

// plainWriter writes a log unchanged.
type plainWriter struct{ io.Writer }

// Close does nothing, because plainWriter does not own its writer.
func (plainWriter) Close() error { return nil }
