package sandboxcloud

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/renameio/v2"
	"github.com/rogpeppe/go-internal/lockedfile"
)

// maxStateSize bounds what is read from a state file.
const maxStateSize = 1 << 30

// store keeps the world in memory and, when it has a path, in a file that other processes may use at the same time.
//
// Readers take the file as it is: it is only ever replaced as a whole. Writers hold a lock on a file beside it from
// reading to replacing. Changes that wait for each other are written together.
type store struct {
	path string // empty: memory only

	queueMu sync.Mutex
	queue   []*change // guarded by queueMu

	mu    sync.RWMutex
	world *world // guarded by mu
	stamp stamp  // of the file that world was read from; guarded by mu
}

// change is a function over the world that waits for its turn.
type change struct {
	fn   func(*world) error
	done bool
	err  error
}

// stamp tells versions of the file apart. Every write makes a new file, so either differs.
type stamp struct {
	size int64
	time time.Time
	node uint64
}

// openStore reads the state, or makes it with the function given.
func openStore(path string, make func() *world) (*store, error) {
	s := &store{path: path}
	if path == "" {
		s.world = make()
		s.world.reindex()
		return s, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("sandbox state: %w", err)
	}
	unlock, err := s.lockFile()
	if err != nil {
		return nil, err
	}
	defer unlock()
	err = s.load()
	if errors.Is(err, fs.ErrNotExist) {
		s.world = make()
		s.world.reindex()
		err = s.save()
	}
	return s, err
}

// view calls fn with the world as of now. fn must not change it or keep any of it.
func (s *store) view(now time.Time, fn func(*world) error) error {
	if err := s.catchUp(now); err != nil {
		return err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return fn(s.world)
}

// catchUp takes the write lock only when there is something new.
func (s *store) catchUp(now time.Time) error {
	s.mu.RLock()
	fresh := !s.stale() && !s.world.due(now)
	s.mu.RUnlock()
	if fresh {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refresh(now)
}

// update calls fn with the world as of now and keeps what it changes. When fn returns an error it must have changed
// nothing. When update returns an error nothing has happened.
func (s *store) update(now time.Time, fn func(*world) error) error {
	c := &change{fn: fn}
	s.queueMu.Lock()
	s.queue = append(s.queue, c)
	s.queueMu.Unlock()

	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.done { // else whoever had the lock before has done it as well
		s.runQueue(now)
	}
	return c.err
}

// runQueue does every change that waits, with one write.
func (s *store) runQueue(now time.Time) {
	s.queueMu.Lock()
	batch := s.queue
	s.queue = nil
	s.queueMu.Unlock()
	err := s.runBatch(now, batch)
	for _, c := range batch {
		c.done = true
		if err != nil {
			c.err = err
		}
	}
}

func (s *store) runBatch(now time.Time, batch []*change) error {
	unlock, err := s.lockFile()
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.refresh(now); err != nil {
		return err
	}
	changed := false
	for _, c := range batch {
		c.err = c.fn(s.world)
		changed = changed || c.err == nil
	}
	if !changed {
		return nil
	}
	// What happens at once, such as a build that takes no time, is in the answer already.
	s.world.settle(now)
	if err := s.save(); err != nil {
		s.stamp = stamp{} // what is in memory never happened: read the file again
		return err
	}
	return nil
}

func (s *store) lockFile() (unlock func(), err error) {
	if s.path == "" {
		return func() {}, nil
	}
	unlock, err = lockedfile.MutexAt(s.path + ".lock").Lock()
	if err != nil {
		return nil, fmt.Errorf("lock sandbox state: %w", err)
	}
	return unlock, nil
}

// stale reports whether another process has written the file since.
func (s *store) stale() bool {
	if s.path == "" {
		return false
	}
	now, err := stampOf(s.path)
	return err != nil || now != s.stamp
}

func (s *store) refresh(now time.Time) error {
	if s.stale() {
		if err := s.load(); err != nil {
			return err
		}
	}
	s.world.settle(now)
	return nil
}

func (s *store) load() error {
	at, err := stampOf(s.path)
	if err != nil {
		return fmt.Errorf("read sandbox state: %w", err)
	}
	if at.size > maxStateSize {
		return fmt.Errorf("read sandbox state %s: %d bytes is more than the %d that are allowed; move it away to start anew",
			s.path, at.size, maxStateSize)
	}
	text, err := os.ReadFile(s.path)
	if err != nil {
		return fmt.Errorf("read sandbox state: %w", err)
	}
	w, err := parseWorld(text)
	if err != nil {
		return fmt.Errorf("read sandbox state %s: %w; move it away to start anew", s.path, err)
	}
	s.world, s.stamp = w, at
	return nil
}

func parseWorld(text []byte) (*world, error) {
	w := &world{}
	if err := json.Unmarshal(text, w); err != nil {
		return nil, fmt.Errorf("not a sandbox state: %w", err)
	}
	if w.Version != worldVersion {
		return nil, fmt.Errorf("it has version %d, this npctl knows version %d", w.Version, worldVersion)
	}
	w.reindex()
	return w, nil
}

func (s *store) save() error {
	if s.path == "" {
		return nil
	}
	s.world.Serial++
	text, err := json.Marshal(s.world)
	if err != nil {
		return fmt.Errorf("write sandbox state %s: %w", s.path, err)
	}
	if err := renameio.WriteFile(s.path, text, 0o600); err != nil {
		return fmt.Errorf("write sandbox state: %w", err)
	}
	s.stamp, err = stampOf(s.path)
	return err
}
