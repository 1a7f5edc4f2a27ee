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

// keep registers a lock that was taken and starts looking after it.
func (s *Store) keep(name, id string) (*lock, error) {
	l := &lock{store: s, name: name, id: id, lost: make(chan struct{})}
	l.ended, l.end = context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(context.Background()); err != nil {
		l.end()
		return nil, err
	}
	s.locks[l] = struct{}{}
	s.workers.Go(l.guard)
	return l, nil
}

// ID implements state.Lock.
func (l *lock) ID() string { return l.id }

// Lost implements state.Lock.
func (l *lock) Lost() <-chan struct{} { return l.lost }

// Unlock implements state.Lock. A lock that was lost is somebody else's by now and stays.
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
		if err != nil && !gone(err) {
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

// guard looks now and then whether the lock is held still, until it ends.
func (l *lock) guard() {
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
		l.look()
	}
}

// look closes Lost when the file says that the lock is another's, or when there is no such file any more. Not having
// been able to look says nothing.
func (l *lock) look() {
	ctx, cancel := context.WithTimeout(l.ended, l.store.opts.Timeout)
	defer cancel()
	err := l.store.view(ctx, func(tx *bbolt.Tx, _ *head) error { return l.verify(tx) })
	switch {
	case err == nil || l.ended.Err() != nil || l.store.closing.Err() != nil:
	case errors.Is(err, state.ErrLost), gone(err):
		l.lose()
	default:
		l.store.log.Warn("could not look whether the lock is held", "lock", l.name, "error", err)
	}
}

// gone says that the file the lock was in is no more.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errReplaced)
}

// verify returns an ErrLost unless the lock is held.
func (l *lock) verify(tx *bbolt.Tx) error {
	if l.isLost() {
		return fmt.Errorf("lock %s (id %s): %w", l.name, l.id, state.ErrLost)
	}
	now, err := readLock(tx, l.name)
	switch {
	case err != nil:
		return err
	case now == nil:
		return fmt.Errorf("lock %s (id %s) was taken away: %w", l.name, l.id, state.ErrLost)
	case now.ID != l.id:
		return fmt.Errorf("lock %s (id %s) was taken away, %s has it for %s now: %w", l.name, l.id, now.Who, now.Operation, state.ErrLost)
	}
	return nil
}

// checkHeld lets nothing be written by a Store that has lost a lock and was not told to give it up yet: who lost a
// lock stops acting.
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

// dropLocks gives back what is held when the store closes.
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
	if err != nil && !gone(err) {
		return fmt.Errorf("give locks back: %w", err)
	}
	return nil
}
