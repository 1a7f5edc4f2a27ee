package emulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/npctl/npctl/internal/host"
	"github.com/rogpeppe/go-internal/lockedfile"
)

// maxStateSize is the maximum size of a state file in bytes.
const maxStateSize = 1 << 30

// store keeps the state in memory and, if it has a path, in a file that other processes may use at the same time.
//
// Readers need no lock, because the file is only replaced as a whole. Writers hold a lock on a file beside it from reading
// to replacing. Concurrent changes are written together (group commit).
type store struct {
	path string // empty: memory only

	queueMu sync.Mutex
	queue   []*change // guarded by queueMu

	mu    sync.RWMutex
	state *cloudState // guarded by mu
	stamp stamp       // of the file that state was read from; guarded by mu
}

// change is a function that changes the state and waits in the queue.
type change struct {
	fn   func(*cloudState) error
	done bool
	err  error
}

// stamp identifies a version of the file. Every write creates a new file, so time or inode differs.
type stamp struct {
	size int64
	time time.Time
	node uint64
}

// openStore reads the state, or creates it with make.
func openStore(path string, make func() *cloudState) (*store, error) {
	s := &store{path: path}
	if path == "" {
		s.state = make()
		s.state.reindex()
		return s, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("emulator state: %w", err)
	}
	unlock, err := s.lockFile()
	if err != nil {
		return nil, err
	}
	defer unlock()
	err = s.load()
	if errors.Is(err, fs.ErrNotExist) {
		s.state = make()
		s.state.reindex()
		err = s.save()
	}
	return s, err
}

// view calls fn with the current state. fn must not change it or keep parts of it.
func (s *store) view(now time.Time, fn func(*cloudState) error) error {
	if err := s.catchUp(now); err != nil {
		return err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return fn(s.state)
}

// catchUp takes the write lock only if the state must change.
func (s *store) catchUp(now time.Time) error {
	s.mu.RLock()
	fresh := !s.stale() && !s.state.due(now)
	s.mu.RUnlock()
	if fresh {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refresh(now)
}

// update calls fn with the current state and stores its changes. If fn returns an error it must not have changed
// anything. If update returns an error nothing has changed.
func (s *store) update(now time.Time, fn func(*cloudState) error) error {
	c := &change{fn: fn}
	s.queueMu.Lock()
	s.queue = append(s.queue, c)
	s.queueMu.Unlock()

	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.done { // otherwise the previous owner of the lock has executed it
		s.runQueue(now)
	}
	return c.err
}

// runQueue executes all waiting changes with one write.
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
		c.err = c.fn(s.state)
		changed = changed || c.err == nil
	}
	if !changed {
		return nil
	}
	// The response already includes immediate events, such as a build that takes no time.
	s.state.settle(now)
	if err := s.save(); err != nil {
		s.stamp = stamp{} // the state in memory was not saved: read the file again
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
		return nil, fmt.Errorf("lock emulator state: %w", err)
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
	s.state.settle(now)
	return nil
}

func (s *store) load() error {
	at, err := stampOf(s.path)
	if err != nil {
		return fmt.Errorf("read emulator state: %w", err)
	}
	if at.size > maxStateSize {
		return fmt.Errorf("read emulator state %s: %d bytes exceeds the limit of %d bytes; move it away to start with an empty cloud",
			s.path, at.size, maxStateSize)
	}
	text, err := os.ReadFile(s.path)
	if err != nil {
		return fmt.Errorf("read emulator state: %w", err)
	}
	w, err := parseState(text)
	if err != nil {
		return fmt.Errorf("read emulator state %s: %w; move it away to start with an empty cloud", s.path, err)
	}
	s.state, s.stamp = w, at
	return nil
}

func parseState(text []byte) (*cloudState, error) {
	w := &cloudState{}
	if err := json.Unmarshal(text, w); err != nil {
		return nil, fmt.Errorf("not an emulator state: %w", err)
	}
	if w.Version != stateVersion {
		return nil, fmt.Errorf("it has version %d, this npctl knows version %d", w.Version, stateVersion)
	}
	w.reindex()
	return w, nil
}

// formatState returns the format that parseState reads.
func formatState(w *cloudState) ([]byte, error) { return jsonv1.Marshal(w) }

func (s *store) save() error {
	if s.path == "" {
		return nil
	}
	s.state.Serial++
	text, err := formatState(s.state)
	if err != nil {
		return fmt.Errorf("write emulator state %s: %w", s.path, err)
	}
	if err := host.ReplaceFile(s.path, text, 0o600); err != nil {
		return fmt.Errorf("write emulator state: %w", err)
	}
	s.stamp, err = stampOf(s.path)
	return err
}
