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

// Commit implements state.Store. Revisions are the zxids of the changes. What changes nothing is not written. When the
// connection is lost before ZooKeeper has answered, the error says that the changes may have been made.
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

// withClaim is the entry of a change with the claim that it asked for.
func (s *Store) withClaim(c *change) state.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry := c.result
	if own := s.claims[c.key]; c.op.Claim && own != nil {
		entry.Claim = own
	}
	return entry
}

// heldLocks refuses everything while a named lock is lost and that was not acknowledged.
func (s *Store) heldLocks() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.locks {
		if l.over {
			return fmt.Errorf("lock %s: %w", l.name, state.ErrLost)
		}
	}
	return nil
}

// commit writes to ZooKeeper first: what it refuses is not done in the private store either.
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
	return s.commitPrivate(ctx, here)
}

func (s *Store) commitShared(ctx context.Context, changes []*change, flags []flag) error {
	var err error
	for range maxTries {
		if err = s.waitSynced(ctx); err != nil {
			return err
		}
		if err = s.tryCommit(ctx, changes, flags); !errors.Is(err, errAgain) {
			return err
		}
		if err := s.Sync(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %w", state.ErrConflict, err)
}

// tryCommit makes one attempt, on what is known now.
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
		return errors.Join(queuedIsConflict(err), s.leave(ctx, contenders))
	}
	return nil
}

func queuedIsConflict(err error) error {
	if errors.Is(err, errQueued) {
		return fmt.Errorf("%w, %w: %w", state.ErrLocked, state.ErrConflict, err)
	}
	return err
}

// unread says whether something of the changes has been changed by others, and is being read. s.mu is held.
func (s *Store) unread(changes []*change) bool {
	return slices.ContainsFunc(changes, func(c *change) bool {
		_, dirty := s.cache.dirty[c.at]
		return dirty && !s.held(c.at)
	})
}

// examine finds what the changes are about, refuses what must be, writes the documents, and returns the locks to take.
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
		return nil, state.Refuse("%s and what is written with it are %d bytes long, at most %d are allowed", changes[0].key, total, maxCommit)
	}
	return s.locksFor(changes)
}

// fetch finds the changes' records, after asking ZooKeeper when their callers have seen something newer than what is
// known here.
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

// locate reports whether something newer must be there than what is known.
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
			// the feed replaces the fields of a znode, so that what is worked on here must be its own
			copied := *c.old
			c.old = &copied
			behind = behind || c.op.Revision > state.Revision(copied.mzxid)
		}
	}
	return behind
}

// document writes what the znode of a put will hold.
func (s *Store) document(c *change) (err error) {
	record := c.op.Record
	if c.id != "" {
		record = withID(record, c.id)
	}
	if r, ok := record.(*resources.Request); ok && r.ID != "" {
		if want := fmt.Sprintf("%03d-", r.Priority); r.ID[:4] != want {
			return state.Refuse("%s cannot have priority %d: the id says it", c.key, r.Priority)
		}
	}
	if c.data, err = s.encode(c.place, record, s.told(c), c.old); err != nil {
		return err
	}
	c.same = c.old != nil && bytes.Equal(c.data, c.old.data)
	return nil
}

// told is the record with the path of a node's upload in place of its id, which others do not know.
func (s *Store) told(c *change) resources.Record {
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
	told.Upload = placeOf(at).id
	return &told
}

// idle says whether there is nothing to do.
func (c *change) idle() bool { return c.same || c.op.Record == nil && c.old == nil }

// writes says whether there is something to write, of the record or of its lock.
func (c *change) writes() bool { return !c.idle() || c.claims || c.ends != nil }

// unchanged gives the entries of changes that change nothing.
func (s *Store) unchanged(changes []*change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range changes {
		if c.same {
			c.result = s.entryOf(c.old)
		}
	}
}

// locksFor returns the directories in which to queue for what nobody has claimed.
func (s *Store) locksFor(changes []*change) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var dirs []string
	for _, c := range changes {
		own := s.claims[c.key]
		c.dir, c.barred, c.ends = "", false, nil
		if c.claims = c.op.Claim && own == nil; c.op.Release && c.op.Record != nil {
			c.ends = own
		}
		if !c.writes() {
			continue
		}
		if own != nil {
			if own.over {
				return nil, fmt.Errorf("claim of %s: %w", c.key, state.ErrLost)
			}
			continue
		}
		dir := c.lockDir()
		if dir == "" || s.claimedDir(dir) {
			continue
		}
		if s.takenByOthers(dir) {
			return nil, fmt.Errorf("%s is claimed by another: %w, %w", c.key, state.ErrLocked, state.ErrConflict)
		}
		if c.dir, c.barred = dir, s.canBar(c, dir); !c.barred && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

// lockDir is the lock that guards the record as it is. New requests and nodes need none; that of a new build or upload is
// the one that keeps two from being made at once.
func (c *change) lockDir() string {
	switch {
	case c.old != nil:
		return claimDir(c.at, c.place, resources.StateOf(c.old.record))
	case c.imported: // nobody works on what is not there
		return ""
	case c.key.Kind == resources.KindBuild || c.key.Kind == resources.KindUpload:
		return claimDir(c.at, c.place, resources.StateOf(c.op.Record))
	default:
		return ""
	}
}

// claimedDir says whether a claim of this process is in that directory. s.mu is held.
func (s *Store) claimedDir(dir string) bool {
	for _, c := range s.claims {
		if c.dir == dir && !c.over {
			return true
		}
	}
	return false
}
