package emulator

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// contents keeps the bytes of small images, so that clients can download them: in files beside the state file, or in
// memory if the state is in memory.
type contents struct {
	dir   string // empty: memory
	limit int64

	mu     sync.Mutex
	memory map[string][]byte // guarded by mu
}

func newContents(stateFile string, limit int64) *contents {
	c := &contents{limit: limit, memory: map[string][]byte{}}
	if stateFile != "" {
		c.dir = stateFile + ".images"
	}
	return c
}

// incomingContent stores an upload up to the limit and discards a larger one.
type incomingContent struct {
	of     *contents
	id     string
	kept   bytes.Buffer
	spill  *os.File // the bytes after the first MiB; only beside a state file
	size   int64
	failed error
}

func (c *contents) receive(id string) *incomingContent { return &incomingContent{of: c, id: id} }

const inMemory = 1 << 20

func (in *incomingContent) Write(p []byte) (int, error) {
	in.size += int64(len(p))
	switch {
	case in.size > in.of.limit || in.failed != nil:
		in.discard()
	case in.of.dir == "" || (in.size <= inMemory && in.spill == nil):
		in.kept.Write(p)
	default:
		in.failed = in.spillOver(p)
	}
	return len(p), nil
}

// spillOver writes the rest to a file.
func (in *incomingContent) spillOver(p []byte) (err error) {
	if in.spill == nil {
		if err := os.MkdirAll(in.of.dir, 0o700); err != nil {
			return err
		}
		if in.spill, err = os.CreateTemp(in.of.dir, ".incoming-*"); err != nil {
			return err
		}
		if _, err := in.spill.Write(in.kept.Bytes()); err != nil {
			return err
		}
		in.kept.Reset()
	}
	_, err = in.spill.Write(p)
	return err
}

// commit stores the content under the image's ID.
func (in *incomingContent) commit() error {
	if in.failed != nil || in.size > in.of.limit {
		return in.failed
	}
	if in.of.dir == "" {
		in.of.mu.Lock()
		defer in.of.mu.Unlock()
		in.of.memory[in.id] = bytes.Clone(in.kept.Bytes())
		return nil
	}
	if in.spill == nil {
		if err := in.spillOver(nil); err != nil {
			return err
		}
	}
	err := errors.Join(in.spill.Close(), os.Rename(in.spill.Name(), in.of.path(in.id)))
	in.spill = nil
	return err
}

// discard releases content that was not committed.
func (in *incomingContent) discard() {
	in.kept.Reset()
	if in.spill != nil {
		_ = in.spill.Close()
		_ = os.Remove(in.spill.Name())
		in.spill = nil
	}
}

// path returns a path inside the directory, even for IDs that clients chose.
func (c *contents) path(id string) string { return filepath.Join(c.dir, filepath.Base(id)) }

func (c *contents) open(id string) (io.ReadCloser, error) {
	if c.dir != "" {
		return os.Open(c.path(id))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	content, found := c.memory[id]
	if !found {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

func (c *contents) remove(id string) {
	if c.dir != "" {
		_ = os.Remove(c.path(id)) // most images have none
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.memory, id)
}
