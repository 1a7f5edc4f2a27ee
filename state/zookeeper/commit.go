package zookeeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// Commit implements state.Store. A revision is the zxid of the change. Operations that change nothing are not written.
// If the connection is lost before ZooKeeper answers, the error says that the changes may have been made.
func (s *Store) Commit(ctx context.Context, ops ...state.Op) ([]state.Entry, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	if len(ops) == 0 {
		return nil, nil
	}
	changes, err := prepare(ops)
	if err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	if err := s.heldLocks(); err != nil {
		return nil, err
	}
	if err := s.commit(ctx, changes); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	entries := make([]state.Entry, len(changes))
	for i, c := range changes {
		entries[i] = s.withClaim(c)
		if c.unnamed {
			resources.SetID(c.op.Record, c.result.Record.Key().ID)
		}
	}
	return entries, nil
}

// withClaim returns the entry of a change, with the claim if the change requested one.
func (s *Store) withClaim(c *change) state.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry := c.result
	if own := s.claims[c.key]; c.op.Claim && own != nil {
		entry.ClaimLock = own
	}
	return entry
}

// heldLocks returns state.ErrLost while a lost named lock has not been unlocked.
func (s *Store) heldLocks() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.locks {
		if l.lostClosed {
			return fmt.Errorf("lock %s: %w", l.name, state.ErrLost)
		}
	}
	return nil
}

// commit writes to ZooKeeper first. If ZooKeeper rejects the changes, commit does not write the private store either.
func (s *Store) commit(ctx context.Context, changes []*change) error {
	var here, there []*change
	for _, c := range changes {
		if shared(c.key.Kind) {
			there = append(there, c)
		} else {
			here = append(here, c)
		}
	}
	flags := s.changedFlags(pauseFlags(here))
	if s.opts.ReadOnly && len(there)+len(flags) > 0 {
		return errReadOnly
	}
	if len(here) > 0 && len(there)+len(flags) > 0 {
		s.privateMu.Lock()
		defer s.privateMu.Unlock()
		if err := s.checkPrivate(ctx, here); err != nil {
			return err
		}
	}
	if len(there)+len(flags) > 0 {
		if err := s.commitShared(ctx, there, flags); err != nil {
			return err
		}
	}
	if len(here) == 0 {
		return nil
	}
	if err := s.noteSightings(ctx, here); err != nil {
		return err
	}
	return s.commitPrivate(ctx, here)
}

func (s *Store) commitShared(ctx context.Context, changes []*change, flags []flag) error {
	var err error
	for range maxTries {
		if err = s.waitSynced(ctx); err != nil {
			return err
		}
		if err = s.tryCommit(ctx, changes, flags); !errors.Is(err, errRetry) {
			return err
		}
		if err := s.Sync(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %w", state.ErrConflict, err)
}

// tryCommit makes one attempt with the present content of the cache.
func (s *Store) tryCommit(ctx context.Context, changes []*change, flags []flag) error {
	dirs, err := s.examine(ctx, changes)
	if err != nil {
		return err
	}
	if len(flags) == 0 && !slices.ContainsFunc(changes, (*change).writes) {
		s.unchanged(changes)
		return nil
	}
	if len(dirs) == 0 {
		return s.write(ctx, changes, flags, nil)
	}
	contenders, err := s.enqueue(ctx, dirs, nil)
	if err == nil {
		err = s.settle(ctx, func() bool { return !s.unread(changes) })
	}
	if err == nil {
		_, err = s.examine(ctx, changes)
	}
	if err == nil {
		err = s.write(ctx, changes, flags, contenders)
	}
	if err != nil {
		return errors.Join(queuedIsConflict(err), s.releaseContenders(ctx, contenders))
	}
	return nil
}

func queuedIsConflict(err error) error {
	if errors.Is(err, errQueued) {
		return fmt.Errorf("%w, %w: %w", state.ErrLocked, state.ErrConflict, err)
	}
	return err
}

// unread reports whether another process has changed one of the records and the feed has not read it yet. s.mu is held.
func (s *Store) unread(changes []*change) bool {
	return slices.ContainsFunc(changes, func(c *change) bool {
		_, dirty := s.cache.dirty[c.at]
		return dirty && !s.inOwnWrite(c.at)
	})
}

// examine looks up the records, validates the changes, encodes the documents, and returns the locks to take.
func (s *Store) examine(ctx context.Context, changes []*change) ([]string, error) {
	if err := s.fetch(ctx, changes); err != nil {
		return nil, err
	}
	if err := s.numberUploads(ctx, changes); err != nil {
		return nil, err
	}
	total := 0
	for _, c := range changes {
		if err := c.checkRevision(); err != nil {
			return nil, err
		}
		if c.op.Record == nil {
			continue
		}
		if err := c.checkMove(); err != nil {
			return nil, err
		}
		if err := s.document(c); err != nil {
			return nil, err
		}
		total += len(c.data)
	}
	if total > maxCommit {
		return nil, state.Invalidf("the commit with %s is %d bytes long, at most %d are allowed", changes[0].key, total, maxCommit)
	}
	return s.locksFor(changes)
}

// fetch looks up the records of the changes. If a caller has seen a newer revision than the cache has, fetch calls Sync
// and looks them up again.
func (s *Store) fetch(ctx context.Context, changes []*change) error {
	if !s.locate(changes) {
		return nil
	}
	if err := s.Sync(ctx); err != nil {
		return err
	}
	s.locate(changes)
	return nil
}

// locate looks up the records of the changes and reports whether the cache must be behind ZooKeeper.
func (s *Store) locate(changes []*change) (behind bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range changes {
		c.locate(s.cache)
		switch {
		case c.unnamed:
		case c.old == nil:
			behind = behind || c.op.Revision != 0 || c.op.Force || c.op.Record == nil
		default:
			// copied because the feed updates the fields of a cached znode
			copied := *c.old
			c.old = &copied
			behind = behind || c.op.Revision > state.Revision(copied.mzxid)
		}
	}
	return behind
}

// document encodes the znode data of a put.
func (s *Store) document(c *change) (err error) {
	record := c.op.Record
	if c.id != "" {
		record = withID(record, c.id)
	}
	if r, ok := record.(*resources.Request); ok && r.ID != "" {
		if want := fmt.Sprintf("%03d-", r.Priority); r.ID[:4] != want {
			return state.Invalidf("%s cannot have priority %d: its ID contains another priority", c.key, r.Priority)
		}
	}
	if c.data, err = s.encode(c.ref, record, s.withUploadPath(c), c.old); err != nil {
		return err
	}
	c.same = c.old != nil && bytes.Equal(c.data, c.old.data)
	return nil
}

// withUploadPath returns the record with the path of a node's upload in place of npctl's ID, which other programs do
// not know.
func (s *Store) withUploadPath(c *change) resources.Record {
	r, ok := c.op.Record.(*resources.Node)
	if !ok {
		return c.op.Record
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at, z := s.cache.find(resources.Key{Kind: resources.KindUpload, ID: r.Upload})
	if z == nil {
		return r
	}
	told := *r
	told.Upload = parsePath(at).id
	return &told
}

// isNoop reports whether the change leaves the record as it is.
func (c *change) isNoop() bool { return c.same || c.op.Record == nil && c.old == nil }

// writes reports whether the change writes the record or its lock.
func (c *change) writes() bool { return !c.isNoop() || c.claims || c.ends != nil }

// unchanged sets the results of changes that change nothing.
func (s *Store) unchanged(changes []*change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range changes {
		if c.same {
			c.result = s.entryOf(c.old)
		}
	}
}

// locksFor returns the lock directories in which to queue for records that no process has claimed.
func (s *Store) locksFor(changes []*change) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var dirs []string
	for _, c := range changes {
		own := s.claims[c.key]
		c.dir, c.fenced, c.ends = "", false, nil
		if c.claims = c.op.Claim && own == nil; c.op.Release && c.op.Record != nil {
			c.ends = own
		}
		if !c.writes() {
			continue
		}
		if own != nil {
			if own.lostClosed {
				return nil, fmt.Errorf("claim of %s: %w", c.key, state.ErrLost)
			}
			continue
		}
		dir := c.lockDir()
		if dir == "" || s.claimedDir(dir) {
			continue
		}
		if s.takenByOthers(dir) {
			return nil, fmt.Errorf("%s is claimed by another process: %w, %w", c.key, state.ErrLocked, state.ErrConflict)
		}
		if c.dir, c.fenced = dir, s.canFence(c, dir); !c.fenced && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

// lockDir returns the lock directory that guards the record. New requests and nodes need no lock. The lock of a new
// build or upload keeps two processes from working on the same one.
func (c *change) lockDir() string {
	switch {
	case c.old != nil:
		return claimDir(c.at, c.ref, resources.StateOf(c.old.record))
	case c.imported: // no process works on a record that does not exist
		return ""
	case c.key.Kind == resources.KindBuild || c.key.Kind == resources.KindUpload:
		return claimDir(c.at, c.ref, resources.StateOf(c.op.Record))
	default:
		return ""
	}
}

// claimedDir reports whether this process holds a claim in the lock directory. s.mu is held.
func (s *Store) claimedDir(dir string) bool {
	for _, c := range s.claims {
		if c.dir == dir && !c.lostClosed {
			return true
		}
	}
	return false
}
