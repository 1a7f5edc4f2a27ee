package bolt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/npctl/npctl/state"
)

var _ state.Lock = (*lock)(nil)

// lockRecord is the stored form of a lock.
type lockRecord struct {
	state.Holder
	hostIdentity
}

// lock is a lock of this Store.
type lock struct {
	store    *Store
	name, id string
	ended    context.Context // done when the lock is released or lost
	end      context.CancelFunc
	lost     chan struct{}
	loseOnce sync.Once
}

// Lock implements state.Store. Empty fields of the holder, except Operation, are filled in from this process. Lock
// takes over the lock of a process on this machine that is known to be dead, and logs that. Every other lock ends by
// Unlock, Close or ForceUnlock.
func (s *Store) Lock(ctx context.Context, name string, holder state.Holder) (state.Lock, error) {
	if name == "" || len(name) > maxID {
		return nil, fmt.Errorf("lock: a name of 1 to %d bytes is needed, got %d", maxID, len(name))
	}
	own := s.complete(holder)
	_, err := s.update(ctx, func(tx *bbolt.Tx, h *head) error {
		other, err := readLock(tx, name)
		if err != nil {
			return err
		}
		if other != nil {
			if err := s.takeOver(name, *other); err != nil {
				return err
			}
		}
		return writeLock(tx, h, name, own)
	})
	if err != nil {
		return nil, err
	}
	l, err := s.registerLock(name, own.ID)
	if err != nil {
		_, undo := s.write(ctx, func(tx *bbolt.Tx, h *head) error { return deleteLock(tx, h, name, own.ID) })
		return nil, errors.Join(err, undo)
	}
	return l, nil
}

// complete fills in the empty fields of a holder. It records the identity of this machine only if the holder is on it.
func (s *Store) complete(h state.Holder) lockRecord {
	h = h.WithDefaults(state.Self(s.self.Host, s.opts.Version))
	if h.Started == "" && h.Host == s.self.Host {
		h.Started, _ = startOf(h.PID)
	}
	record := lockRecord{Holder: h}
	if h.Host == s.self.Host {
		record.hostIdentity = s.self.hostIdentity
	}
	return record
}

// takeOver returns a LockedError unless the holder is dead.
func (s *Store) takeOver(name string, other lockRecord) error {
	reason := s.self.whyDead(other)
	if reason == "" {
		return &state.LockedError{Name: name, Holder: other.Holder}
	}
	s.log.Warn("lock taken over", "lock", name, "reason", reason, "holder", other.UserHost, "pid", other.PID,
		"operation", other.Operation, "since", other.Since, "lock_id", other.ID)
	return nil
}

func readLock(tx *bbolt.Tx, name string) (*lockRecord, error) {
	bucket := tx.Bucket(locksBucket)
	if bucket == nil {
		return nil, nil
	}
	value := bucket.Get([]byte(name))
	if value == nil {
		return nil, nil
	}
	return openLock([]byte(name), value)
}

func openLock(name, value []byte) (*lockRecord, error) {
	_, raw, err := verifyChecksum(locksBucket, name, value)
	if err != nil {
		return nil, err
	}
	record := &lockRecord{}
	if err := json.Unmarshal(raw, record); err != nil {
		return nil, damage("lock %s: %v", name, err)
	}
	return record, nil
}

func writeLock(tx *bbolt.Tx, h *head, name string, record lockRecord) error {
	bucket, err := tx.CreateBucketIfNotExists(locksBucket)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(record)
	if err != nil {
		return err
	}
	if bucket.Get([]byte(name)) == nil {
		h.Locks++
	}
	if err := bucket.Put([]byte(name), addChecksum(locksBucket, []byte(name), 0, raw)); err != nil {
		return err
	}
	return h.save(tx)
}

// deleteLock removes the lock if it still has the given ID.
func deleteLock(tx *bbolt.Tx, h *head, name, id string) error {
	record, err := readLock(tx, name)
	if err != nil || record == nil || record.ID != id {
		return err
	}
	h.Locks--
	if err := tx.Bucket(locksBucket).Delete([]byte(name)); err != nil {
		return err
	}
	return h.save(tx)
}

// Holder returns the current holder of the lock, or nil.
func (s *Store) Holder(ctx context.Context, name string) (*state.Holder, error) {
	holder, _, err := s.holder(ctx, name)
	return holder, err
}

// Worker returns the holder of the lock, or nil if the lock is free or the holder is known to be dead.
func (s *Store) Worker(ctx context.Context, name string) (*state.Holder, error) {
	holder, dead, err := s.holder(ctx, name)
	if dead {
		return nil, err
	}
	return holder, err
}

func (s *Store) holder(ctx context.Context, name string) (holder *state.Holder, dead bool, err error) {
	err = s.view(ctx, func(tx *bbolt.Tx, _ *head) error {
		record, err := readLock(tx, name)
		if record != nil {
			holder, dead = &record.Holder, s.self.whyDead(*record) != ""
		}
		return err
	})
	return holder, dead, err
}

// ForceUnlock takes the lock with the given ID from its holder and returns the holder. The holder notices the loss
// within a second, and at the latest when it commits.
func (s *Store) ForceUnlock(ctx context.Context, lockID string) (state.Holder, error) {
	var holder state.Holder
	_, err := s.update(ctx, func(tx *bbolt.Tx, h *head) error {
		name, record, err := findLock(tx, lockID)
		if err != nil {
			return err
		}
		holder = record.Holder
		return deleteLock(tx, h, name, lockID)
	})
	return holder, err
}

// findLock returns the lock with the given ID. Its error names the existing locks.
func findLock(tx *bbolt.Tx, id string) (name string, found *lockRecord, err error) {
	var others []error
	if bucket := tx.Bucket(locksBucket); bucket != nil {
		err = bucket.ForEach(func(k, v []byte) error {
			record, err := openLock(k, v)
			if err != nil {
				return err
			}
			if record.ID == id {
				name, found = string(k), record
			}
			others = append(others, &state.LockedError{Name: string(k), Holder: record.Holder})
			return nil
		})
	}
	switch {
	case err != nil || found != nil:
		return name, found, err
	case len(others) == 0:
		return "", nil, fmt.Errorf("unlock %q: no lock is held: %w", id, state.ErrNotFound)
	default:
		return "", nil, fmt.Errorf("unlock %q: no lock has that id: %w", id, errors.Join(others...))
	}
}
