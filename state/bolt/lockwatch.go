package bolt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"github.com/npctl/npctl/state"
)

// registerLock registers a new lock and starts to watch for its loss.
func (s *Store) registerLock(name, id string) (*lock, error) {
	l := &lock{store: s, name: name, id: id, lost: make(chan struct{})}
	l.ended, l.end = context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(context.Background()); err != nil {
		l.end()
		return nil, err
	}
	s.locks[l] = struct{}{}
	s.workers.Go(l.watchLost)
	return l, nil
}

// ID implements state.Lock.
func (l *lock) ID() string { return l.id }

// Lost implements state.Lock.
func (l *lock) Lost() <-chan struct{} { return l.lost }

// Unlock implements state.Lock. It does not change a lost lock in the file, which another process may hold now.
func (l *lock) Unlock(ctx context.Context) error {
	s := l.store
	s.mu.Lock()
	_, held := s.locks[l]
	s.mu.Unlock()
	if !held {
		return nil
	}
	if !l.isLost() {
		_, err := s.update(ctx, func(tx *bbolt.Tx, h *head) error { return deleteLock(tx, h, l.name, l.id) })
		if err != nil && !isFileGone(err) {
			return fmt.Errorf("unlock %s: %w", l.name, err)
		}
	}
	l.end()
	s.mu.Lock()
	delete(s.locks, l)
	s.mu.Unlock()
	return nil
}

func (l *lock) isLost() bool {
	select {
	case <-l.lost:
		return true
	default:
		return false
	}
}

func (l *lock) lose() {
	l.loseOnce.Do(func() { close(l.lost) })
	l.end()
}

// watchLost checks every lostEvery whether the lock is still held, until it ends. It reads the lock only if the file
// has changed.
func (l *lock) watchLost() {
	tick := time.NewTicker(l.store.lostEvery)
	defer tick.Stop()
	var seen version
	for {
		select {
		case <-l.ended.Done():
			return
		case <-l.store.closing.Done():
			return
		case <-tick.C:
		}
		if now, err := l.store.file.peek(); err == nil && now == seen && now != (version{}) {
			continue
		} else if err == nil {
			seen = now
		}
		l.checkLost()
	}
}

// checkLost marks the lock as lost if the file is gone, or no longer has the lock with this ID. If the file cannot be
// read, it logs a warning and does not change the lock.
func (l *lock) checkLost() {
	ctx, cancel := context.WithTimeout(l.ended, l.store.opts.Timeout)
	defer cancel()
	err := l.store.view(ctx, func(tx *bbolt.Tx, _ *head) error { return l.verify(tx) })
	switch {
	case err == nil || l.ended.Err() != nil || l.store.closing.Err() != nil:
	case errors.Is(err, state.ErrLost), isFileGone(err):
		l.lose()
	default:
		l.store.log.Warn("cannot check whether the lock is held", "lock", l.name, "error", err)
	}
}

// isFileGone reports whether the file of the lock was deleted or replaced.
func isFileGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errReplaced)
}

// verify returns ErrLost unless the lock is held.
func (l *lock) verify(tx *bbolt.Tx) error {
	if l.isLost() {
		return fmt.Errorf("lock %s (id %s): %w", l.name, l.id, state.ErrLost)
	}
	now, err := readLock(tx, l.name)
	switch {
	case err != nil:
		return err
	case now == nil:
		return fmt.Errorf("lock %s (id %s) was removed: %w", l.name, l.id, state.ErrLost)
	case now.ID != l.id:
		return fmt.Errorf("lock %s (id %s) was removed, and %s holds it for %s now: %w", l.name, l.id, now.UserHost, now.Operation, state.ErrLost)
	}
	return nil
}

// checkHeld returns ErrLost if the Store has lost a lock that its owner has not unlocked yet. The owner of a lost lock
// must stop writing.
func (s *Store) checkHeld(tx *bbolt.Tx) error {
	for _, l := range s.held() {
		if err := l.verify(tx); err != nil {
			if errors.Is(err, state.ErrLost) {
				l.lose()
			}
			return err
		}
	}
	return nil
}

func (s *Store) held() []*lock {
	s.mu.Lock()
	defer s.mu.Unlock()
	locks := make([]*lock, 0, len(s.locks))
	for l := range s.locks {
		locks = append(locks, l)
	}
	return slices.SortedFunc(slices.Values(locks), func(a, b *lock) int { return strings.Compare(a.name, b.name) })
}

// dropLocks releases all locks when the store closes.
func (s *Store) dropLocks(ctx context.Context) error {
	locks := s.held()
	if len(locks) == 0 {
		return nil
	}
	_, err := s.write(ctx, func(tx *bbolt.Tx, h *head) error {
		for _, l := range locks {
			if err := deleteLock(tx, h, l.name, l.id); err != nil {
				return err
			}
		}
		return nil
	})
	s.mu.Lock()
	clear(s.locks)
	s.mu.Unlock()
	for _, l := range locks {
		l.lose()
	}
	if err != nil && !isFileGone(err) {
		return fmt.Errorf("release locks: %w", err)
	}
	return nil
}
