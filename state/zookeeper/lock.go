package zookeeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"github.com/npctl/npctl/state"
)

// lock is a named lock. While a lost lock has not been unlocked, all writes fail.
type lock struct {
	*contender
	store *Store
	name  string
	id    string
}

var _ state.Lock = (*lock)(nil)

const maxLockName = 1024 // bytes

func namedLockDir(name string) string {
	return namedDir + "/" + url.PathEscape(name)
}

// Lock implements state.Store. The lock ends with the session: the locks of a killed process remain for the session
// timeout. Empty fields of holder are filled in from this process; see state.Holder.WithDefaults.
func (s *Store) Lock(ctx context.Context, name string, holder state.Holder) (state.Lock, error) {
	if name == "" || len(name) > maxLockName || name == "." || name == ".." {
		return nil, state.Invalidf("lock %.40q: a name of 1 to %d bytes is needed", name, maxLockName)
	}
	if s.opts.ReadOnly {
		return nil, errReadOnly
	}
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	if err := s.waitSynced(ctx); err != nil {
		return nil, err
	}
	own := holder.WithDefaults(state.Self(s.opts.Host, s.opts.Version))
	for range maxTries {
		l, err := s.tryLock(ctx, name, own)
		if !errors.Is(err, errRetry) {
			return l, err
		}
	}
	return nil, fmt.Errorf("lock %s: its holder changes too often: %w", name, state.ErrLocked)
}

// tryLock returns a nil interface with every error.
func (s *Store) tryLock(ctx context.Context, name string, own state.Holder) (state.Lock, error) {
	dir := namedLockDir(name)
	if locked, err := s.lockedBy(ctx, name); err != nil || locked != nil {
		return nil, orLocked(err, locked)
	}
	data, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	contenders, err := s.enqueue(ctx, []string{dir}, data)
	switch {
	case errors.Is(err, errQueued):
		_, locked, err := s.first(ctx, name, contenders[0])
		_ = s.releaseContenders(ctx, contenders)
		return nil, errors.Join(orLocked(err, locked), retryUnlessNamed(err, locked))
	case err != nil:
		_ = s.releaseContenders(ctx, contenders)
		return nil, err
	}
	l := &lock{contender: contenders[0], store: s, name: name, id: own.ID}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locks[l] = struct{}{}
	return l, nil
}

// retryUnlessNamed returns errRetry if the holder released the lock before its name was read.
func retryUnlessNamed(err error, locked *state.LockedError) error {
	if err == nil && locked == nil {
		return errRetry
	}
	return nil
}

func orLocked(err error, locked *state.LockedError) error {
	if err == nil && locked != nil {
		return locked
	}
	return err
}

// ID implements state.Lock.
func (l *lock) ID() string { return l.id }

// Lost implements state.Lock.
func (l *lock) Lost() <-chan struct{} { return l.lost }

// Unlock implements state.Lock.
func (l *lock) Unlock(ctx context.Context) error {
	s := l.store
	s.mu.Lock()
	_, known := s.locks[l]
	delete(s.locks, l)
	s.mu.Unlock()
	if !known || s.isClosed() {
		return nil
	}
	if err := s.release(ctx, l.contender); err != nil {
		return fmt.Errorf("unlock %s: %w", l.name, err)
	}
	return nil
}
