package bolt

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

const (
	maxRecord = 1 << 20 // bytes of JSON; also the limit of ZooKeeper
	maxID     = 1024    // bytes
)

// Commit implements state.Store. A revision is the serial of the commit: all records of a commit get the same revision,
// and no revision is reused. It rejects changes of state that resources.LegalTransition forbids.
func (s *Store) Commit(ctx context.Context, ops ...state.Op) ([]state.Entry, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	if len(ops) == 0 {
		return nil, nil
	}
	checked, err := state.Check(ops)
	if err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	changes := make([]*change, len(checked))
	for i, c := range checked {
		changes[i] = &change{CheckedOp: c}
	}
	at, err := s.writeChanges(ctx, changes)
	if err != nil {
		return nil, err
	}
	s.hint(at)
	entries := make([]state.Entry, len(changes))
	for i, c := range changes {
		entries[i] = c.result
		if c.Unnamed {
			resources.SetID(c.Record, c.Subject.ID)
		}
	}
	return entries, nil
}

// change is an op of a commit in progress.
type change struct {
	state.CheckedOp
	result state.Entry // of a put, once applied; shares no memory with the record passed in
}

func (c *change) apply(tx *bbolt.Tx, h *head) error {
	records, err := tx.CreateBucketIfNotExists(recordsBucket)
	if err != nil {
		return err
	}
	bucket, err := records.CreateBucketIfNotExists([]byte(c.Subject.Kind))
	if err != nil {
		return err
	}
	if c.Unnamed {
		c.Subject.ID = h.nextID(c.Subject.Kind, bucket)
	}
	var old []byte // the content that the change replaces, nil if none exists
	var revision state.Revision
	if value := bucket.Get([]byte(c.Subject.ID)); value != nil {
		if revision, old, err = verifyChecksum([]byte(c.Subject.Kind), []byte(c.Subject.ID), value); err != nil {
			return err
		}
	}
	if err := c.CheckRevision(revision); err != nil {
		return err
	}
	if c.Record == nil {
		if old != nil {
			h.Counts[c.Subject.Kind]--
		}
		return bucket.Delete([]byte(c.Subject.ID))
	}
	if old == nil {
		h.Counts[c.Subject.Kind]++
		h.noteID(c.Subject)
	}
	return c.put(h, bucket, old, state.Revision(h.Serial))
}

func (c *change) put(h *head, bucket *bbolt.Bucket, old []byte, revision state.Revision) error {
	record := c.Record
	if c.Unnamed {
		record = state.WithID(record, c.Subject.ID)
	}
	if sighting, ok := record.(*resources.Sighting); ok && h.Role == RoleState { // in the other roles, another store assigns the IDs
		record = h.noteSighting(sighting)
	}
	content, err := json.Marshal(record)
	if err != nil {
		return state.Invalidf("%s: %v", c.Subject, err)
	}
	if err := c.checkMove(old, record); err != nil {
		return err
	}
	if content, err = preserveUnknownFields(old, content, reflect.TypeOf(record).Elem()); err != nil {
		return err
	}
	if len(content) > maxRecord {
		return state.Invalidf("%s is %d bytes long, at most %d are allowed", c.Subject, len(content), maxRecord)
	}
	stored, err := decode(c.Subject.Kind, []byte(c.Subject.ID), content)
	if err != nil {
		return state.Invalidf("%s would read back differently: %v", c.Subject, err)
	}
	c.result = state.Entry{Record: stored, Revision: revision}
	return bucket.Put([]byte(c.Subject.ID), addChecksum([]byte(c.Subject.Kind), []byte(c.Subject.ID), revision, content))
}

// checkMove rejects a change of state that resources.LegalTransition forbids.
func (c *change) checkMove(old []byte, record resources.Record) error {
	var from struct{ State resources.State }
	if old != nil {
		if err := json.Unmarshal(old, &from); err != nil {
			return damage("%s: %v", c.Subject, err)
		}
	}
	if to := resources.StateOf(record); !resources.LegalTransition(c.Subject.Kind, from.State, to) {
		return state.Invalidf("%s may not go from state %q to %q: this is a bug in npctl", c.Subject, from.State, to)
	}
	return nil
}

// maxGroupCommit is the maximum number of commits in one transaction.
const maxGroupCommit = 256

// groupCommit writes concurrent commits in one transaction, because syncing a transaction to disk takes most of the
// time. Each commit succeeds or fails independently, and returns when it is on disk.
type groupCommit struct {
	turn chan struct{} // holds one token; its owner writes all waiting commits

	mu      sync.Mutex // guards waiting
	waiting []*waiting
}

// waiting is a commit that waits to be written.
type waiting struct {
	ctx     context.Context
	changes []*change
	done    chan struct{} // closed when at and err are set
	at      version
	err     error
}

func newGroupCommit() *groupCommit {
	g := &groupCommit{turn: make(chan struct{}, 1)}
	g.turn <- struct{}{}
	return g
}

// writeChanges writes changes, in one transaction with concurrent commits.
func (s *Store) writeChanges(ctx context.Context, changes []*change) (version, error) {
	g := s.group
	w := &waiting{ctx: ctx, changes: changes, done: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, w)
	g.mu.Unlock()
	for {
		select {
		case <-w.done:
			return w.at, w.err
		case <-g.turn:
			g.mu.Lock()
			n := min(len(g.waiting), maxGroupCommit)
			next := g.waiting[:n:n]
			g.waiting = g.waiting[n:]
			g.mu.Unlock()
			s.writeTogether(next)
			g.turn <- struct{}{}
		case <-ctx.Done():
			g.mu.Lock()
			i := slices.Index(g.waiting, w)
			if i >= 0 {
				g.waiting = slices.Delete(g.waiting, i, i+1)
			}
			g.mu.Unlock()
			if i >= 0 {
				return version{}, ctx.Err()
			}
			<-w.done // another goroutine is writing it
			return w.at, w.err
		}
	}
}

// writeTogether writes commits in one transaction. If one fails, it retries the others without it.
func (s *Store) writeTogether(all []*waiting) {
	for len(all) > 0 {
		ctx := all[0].ctx
		if len(all) > 1 {
			ctx = context.WithoutCancel(ctx) // one caller must not cancel the others; the wait for the file has its own timeout
		}
		ended := all // unless one of them fails
		at, err := s.update(ctx, func(tx *bbolt.Tx, h *head) error {
			if err := s.checkHeld(tx); err != nil {
				return err
			}
			for i, w := range all {
				s.nextHead(h)
				for _, c := range w.changes {
					if err := c.apply(tx, h); err != nil {
						ended = all[i : i+1]
						return err
					}
				}
			}
			return h.save(tx)
		})
		for _, w := range ended {
			w.at, w.err = at, err
			close(w.done)
		}
		all = slices.DeleteFunc(slices.Clone(all), func(w *waiting) bool { return slices.Contains(ended, w) })
	}
}

// watcher is a channel that Watch returned, with capacity for one hint, so that hints merge. Only its goroutine closes
// it. hint sends under Store.mu while the watcher is registered, and the goroutine unregisters it before it closes it.
type watcher chan struct{}

// Watch implements state.Store. Commits through this Store send a hint at once. To notice commits of other processes,
// Watch reads the version of the file every second, without a lock. Each such timer wakes an idle daemon.
func (s *Store) Watch(ctx context.Context) (<-chan struct{}, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	seen, err := s.file.peek()
	if err != nil {
		return nil, s.wrap("watch", err)
	}
	w := make(watcher, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	s.watchers[w] = struct{}{}
	s.workers.Go(func() { s.watch(ctx, w, seen) })
	return w, nil
}

func (s *Store) watch(ctx context.Context, w watcher, seen version) {
	defer func() {
		s.mu.Lock()
		delete(s.watchers, w)
		s.mu.Unlock()
		close(w)
	}()
	tick := time.NewTicker(s.hintEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.closing.Done():
			return
		case <-tick.C:
		}
		// After an error the next tick tries again.
		now, err := s.file.peek()
		if err != nil || now == seen {
			continue
		}
		seen = now
		s.mu.Lock()
		if now != s.hinted {
			w.hint()
		}
		s.mu.Unlock()
	}
}

// hint sends a hint to all watchers of this Store: records changed up to the version.
func (s *Store) hint(at version) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hinted = at
	for w := range s.watchers {
		w.hint()
	}
}

func (w watcher) hint() {
	select {
	case w <- struct{}{}:
	default:
	}
}
