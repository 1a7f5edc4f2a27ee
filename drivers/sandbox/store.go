package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"

	"github.com/npctl/npctl/internal/host"
)

// maxFile is the maximum size of the file in bytes.
const maxFile = 256 << 20

// store keeps a fleet in memory and, if it has a path, in a file that other processes may use at the same time. Readers need no lock,
// because the file is only replaced as a whole. Writers hold the lock of a file beside it from reading to replacing.
type store struct {
	path string // empty: memory only

	mu    sync.Mutex  // guards the fields below
	fleet *fleet      // nil before the first call
	read  fs.FileInfo // of the file that fleet was read from; nil if there was none
}

// view calls fn with the current fleet. fn must not change it or keep parts of it.
func (s *store) view(fn func(*fleet) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refresh(); err != nil {
		return err
	}
	return fn(s.fleet)
}

// change calls fn with the current fleet and stores its changes. If fn returns an error it must not have changed anything.
func (s *store) change(fn func(*fleet) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.path != "" {
		if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
			return fmt.Errorf("sandbox: %w", err)
		}
		unlock, err := lockedfile.MutexAt(s.path + ".lock").Lock()
		if err != nil {
			return fmt.Errorf("lock the sandbox: %w", err)
		}
		defer unlock()
	}
	if err := s.refresh(); err != nil {
		return err
	}
	s.fleet.removeDeleted(time.Now())
	if err := fn(s.fleet); err != nil {
		return err
	}
	return s.save()
}

// refresh reads the file if another process has replaced it.
func (s *store) refresh() error {
	if s.path == "" {
		if s.fleet == nil {
			s.fleet = newFleet()
		}
		return nil
	}
	now, err := os.Stat(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.fleet, s.read = newFleet(), nil
		return nil
	case err != nil:
		return fmt.Errorf("read the sandbox: %w", err)
	case s.fleet != nil && s.read != nil && os.SameFile(now, s.read) && now.ModTime().Equal(s.read.ModTime()) && now.Size() == s.read.Size():
		return nil
	}
	file, err := os.Open(s.path)
	if err != nil {
		return fmt.Errorf("read the sandbox: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	if now, err = file.Stat(); err != nil {
		return fmt.Errorf("read the sandbox: %w", err)
	}
	f := newFleet()
	err = json.NewDecoder(io.LimitReader(file, maxFile)).Decode(f)
	if err == nil && f.Version != fleetVersion {
		err = fmt.Errorf("it has version %d, this npctl knows version %d", f.Version, fleetVersion)
	}
	if err != nil {
		return fmt.Errorf("read the sandbox %s: %w; move the file away to start with an empty cloud", s.path, err)
	}
	s.fleet, s.read = f, now
	return nil
}

func (s *store) save() error {
	if s.path == "" {
		return nil
	}
	text, err := json.Marshal(s.fleet)
	if err == nil {
		err = host.ReplaceFile(s.path, text, 0o600)
	}
	if err == nil {
		s.read, err = os.Stat(s.path)
	}
	if err != nil {
		s.fleet, s.read = nil, nil // read the file again
		return fmt.Errorf("write the sandbox: %w", err)
	}
	return nil
}
