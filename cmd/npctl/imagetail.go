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
)

// logFollower copies a log, and goes on until whoever writes it has ended.
type logFollower struct {
	path   string
	every  time.Duration
	to     io.WriteCloser
	ended  func(context.Context) (bool, error)
	offset int64
}

// run copies the last lines, all when lines is below 0, and then what is added.
func (f *logFollower) run(ctx context.Context, lines int) error {
	if err := f.begin(lines); err != nil {
		return err
	}
	for {
		ended, err := f.ended(ctx) // asked first: what was written before the end is copied after it
		if err != nil {
			return err
		}
		if err := f.copy(ctx); err != nil {
			return err
		}
		if ended {
			return f.to.Close()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(f.every):
		}
	}
}

// begin finds where to start. A log that is not there yet starts at its beginning.
func (f *logFollower) begin(lines int) error {
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
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

// copy writes what the log has beyond the offset. A log that has become shorter was begun anew.
func (f *logFollower) copy(ctx context.Context) error {
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	if info, err := file.Stat(); err == nil && info.Size() < f.offset {
		f.offset = 0
	}
	rest := io.NewSectionReader(file, f.offset, 1<<62)
	n, err := io.Copy(f.to, readerFunc(func(p []byte) (int, error) { // a log of gigabytes has to stop as well
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

// lastLines finds where the last n lines begin, reading backwards from the end.
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
			if part[i] != '\n' || lastByte { // the line break at the very end ends the last line
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

// longestLine is how much of a line is kept until it ends; a longer one comes in pieces.
const longestLine = 64 << 10

// lineWriter calls line with each line written to it, without its line break.
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

// Close writes a last line that has no end.
func (w *lineWriter) Close() error {
	if len(w.partial) == 0 {
		return nil
	}
	return w.flush()
}

// plainWriter writes a log as it is.
type plainWriter struct{ io.Writer }

// Close does nothing.
func (plainWriter) Close() error { return nil }
