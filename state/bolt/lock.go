package bolt

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/npctl/npctl/internal/host"
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
	delete(s.locks, l) // before the file changes: a commit at the same time must not take that for a loss
	s.mu.Unlock()
	if !held {
		return nil
	}
	if l.ended.Err() == nil {
		_, err := s.update(ctx, func(tx *bbolt.Tx, h *head) error { return deleteLock(tx, h, l.name, l.id) })
		if err != nil && !isFileGone(err) {
			s.mu.Lock()
			s.locks[l] = struct{}{}
			s.mu.Unlock()
			return fmt.Errorf("unlock %s: %w", l.name, err)
		}
	}
	l.end()
	return nil
}

func (l *lock) lose() {
	l.end()
	l.loseOnce.Do(func() { close(l.lost) })
}

// watchLost checks every lostEvery whether the lock is still held, until it ends. It reads the lock only if the file
// has changed. The lock is lost if the file is gone, or no longer has the lock with this ID. If the file cannot be read,
// watchLost logs a warning and does not change the lock.
func (l *lock) watchLost() {
	s := l.store
	tick := time.NewTicker(s.lostEvery)
	defer tick.Stop()
	var seen version
	for {
		select {
		case <-l.ended.Done():
			return
		case <-s.closing.Done():
			return
		case <-tick.C:
		}
		if now, err := s.file.peek(); err == nil && now == seen && now != (version{}) {
			continue
		} else if err == nil {
			seen = now
		}
		ctx, cancel := context.WithTimeout(l.ended, s.opts.Timeout)
		err := s.view(ctx, func(tx *bbolt.Tx, _ *head) error { return l.verify(tx) })
		cancel()
		switch {
		case err == nil || l.ended.Err() != nil || s.closing.Err() != nil || !slices.Contains(s.held(), l):
		case errors.Is(err, state.ErrLost), isFileGone(err):
			l.lose()
		default:
			s.log.Warn("cannot check whether the lock is held", "lock", l.name, "error", err)
		}
	}
}

// isFileGone reports whether the file of the lock was deleted or replaced.
func isFileGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errReplaced)
}

// verify returns ErrLost unless the lock is held.
func (l *lock) verify(tx *bbolt.Tx) error {
	if l.ended.Err() != nil {
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
	return slices.SortedFunc(maps.Keys(s.locks), func(a, b *lock) int { return strings.Compare(a.name, b.name) })
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

// process identifies a running program as far as another process on the same machine can verify it.
type process struct {
	Host    string
	PID     int
	Started string // clock ticks since boot, as in /proc/PID/stat
	hostIdentity
}

// hostIdentity identifies the machine and namespace in which a PID is valid. It is stored with a lock.
type hostIdentity struct {
	Boot    string `json:"boot_id,omitempty"`       // changes with each boot
	Machine string `json:"machine_id,omitempty"`    // stays the same
	Space   string `json:"pid_namespace,omitempty"` // differs between containers
}

func thisProcess() process {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	space, _ := os.Readlink("/proc/self/ns/pid")
	started, _ := startOf(os.Getpid())
	return process{
		Host: host, PID: os.Getpid(), Started: started,
		hostIdentity: hostIdentity{
			Boot: firstLine("/proc/sys/kernel/random/boot_id"), Machine: firstLine("/etc/machine-id"), Space: space,
		},
	}
}

func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}

// startOf returns the start time of the process. It is empty if /proc is missing or cannot be read. The error is
// os.ErrProcessDone if no such process runs.
func startOf(pid int) (string, error) {
	if !host.IsRunning(pid) {
		return "", os.ErrProcessDone
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", nil //nolint:nilerr // without a readable /proc the start time is unknown
	}
	// The second field is the program's name in parentheses and may contain any character (man 5 proc_pid_stat).
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const state, starttime = 0, 19
	if len(fields) <= starttime {
		return "", nil
	}
	if fields[state][0] == 'Z' {
		return "", os.ErrProcessDone
	}
	return string(fields[starttime]), nil
}

// whyDead returns the reason why the holder is known to be dead. It returns "" if the holder may be alive: on another
// host, in another container, or not verifiable.
func (p process) whyDead(r lockRecord) string {
	if r.Host != p.Host || r.Boot == "" || p.Boot == "" {
		return ""
	}
	if r.Boot != p.Boot {
		if r.Machine != "" && r.Machine == p.Machine {
			return "its machine has restarted since"
		}
		return ""
	}
	if r.Space != p.Space || r.PID <= 0 {
		return ""
	}
	started, err := startOf(r.PID)
	switch {
	case err != nil:
		return "its process has ended"
	case r.Started != "" && started != "" && started != r.Started:
		return "its process has ended and its PID is in use again"
	}
	return ""
}
