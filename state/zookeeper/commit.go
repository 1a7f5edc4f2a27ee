package zookeeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// transactions writes shared records and flags: each commit is one multi that depends on the versions of the records and
// on the locks.
type transactions struct {
	session  *session
	mirror   *mirror
	locks    *locks
	presence *presence
	numbers  *numbers
	mu       *sync.Mutex // guards cache; see Store
	cache    *cache
}

// commitShared writes changes of shared records and flags, and tries again if the znodes change in the meantime.
func (t *transactions) commitShared(ctx context.Context, changes []*change, flags []flag) error {
	var err error
	for range maxTries {
		if err = t.session.waitSynced(ctx); err != nil {
			return err
		}
		if err = t.tryCommit(ctx, changes, flags); !errors.Is(err, errRetry) {
			return err
		}
		if err := t.mirror.sync(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %w", state.ErrConflict, err)
}

// tryCommit makes one attempt with the present content of the cache.
func (t *transactions) tryCommit(ctx context.Context, changes []*change, flags []flag) error {
	dirs, err := t.examine(ctx, changes)
	if err != nil {
		return err
	}
	if len(flags) == 0 && !slices.ContainsFunc(changes, (*change).writes) {
		t.unchanged(changes)
		return nil
	}
	if len(dirs) == 0 {
		return t.write(ctx, changes, flags, nil)
	}
	contenders, err := t.locks.enqueue(ctx, dirs, nil)
	if err == nil {
		err = t.mirror.settle(ctx, func() bool { return !t.unread(changes) })
	}
	if err == nil {
		_, err = t.examine(ctx, changes)
	}
	if err == nil {
		err = t.write(ctx, changes, flags, contenders)
	}
	if err != nil {
		t.locks.releaseContenders(ctx, contenders)
		return queuedIsConflict(err)
	}
	return nil
}

func queuedIsConflict(err error) error {
	if errors.Is(err, errQueued) {
		return fmt.Errorf("%w, %w: %w", state.ErrLocked, state.ErrConflict, err)
	}
	return err
}

// unread reports whether another process has changed one of the records and the feed has not read it yet. mu is held.
func (t *transactions) unread(changes []*change) bool {
	return slices.ContainsFunc(changes, func(c *change) bool { return t.mirror.isUnread(c.present()) })
}

// examine looks up the records, validates the changes, encodes the documents, and returns the locks to take.
func (t *transactions) examine(ctx context.Context, changes []*change) ([]string, error) {
	if err := t.fetch(ctx, changes); err != nil {
		return nil, err
	}
	if err := t.numbers.numberUploads(ctx, changes); err != nil {
		return nil, err
	}
	total := 0
	for _, c := range changes {
		if err := c.CheckRevision(c.revision()); err != nil {
			return nil, err
		}
		if c.Record == nil {
			continue
		}
		if err := c.checkMove(); err != nil {
			return nil, err
		}
		if err := t.document(c); err != nil {
			return nil, err
		}
		total += len(c.data)
	}
	if total > maxCommit {
		return nil, state.Invalidf("the commit with %s is %d bytes long, at most %d are allowed", changes[0].Subject, total, maxCommit)
	}
	return t.locksFor(changes)
}

// fetch looks up the records of the changes. If a caller has seen a newer revision than the cache has, fetch calls Sync
// and looks them up again.
func (t *transactions) fetch(ctx context.Context, changes []*change) error {
	if !t.locate(changes) {
		return nil
	}
	if err := t.mirror.sync(ctx); err != nil {
		return err
	}
	t.locate(changes)
	return nil
}

// locate looks up the records of the changes and reports whether the cache must be behind ZooKeeper.
func (t *transactions) locate(changes []*change) (behind bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range changes {
		c.locate(t.cache)
		switch {
		case c.Unnamed:
		case c.old == nil:
			behind = behind || c.Revision != 0 || c.Force || c.Record == nil
		default:
			// copied because the feed updates the fields of a cached znode
			copied := *c.old
			c.old = &copied
			behind = behind || c.Revision > state.Revision(copied.mzxid)
		}
	}
	return behind
}

// document encodes the znode data of a put.
func (t *transactions) document(c *change) (err error) {
	record := c.Record
	if c.id != "" {
		record = state.WithID(record, c.id)
	}
	if r, ok := record.(*resources.Request); ok && r.ID != "" {
		if want := fmt.Sprintf("%03d-", r.Priority); r.ID[:4] != want {
			return state.Invalidf("%s cannot have priority %d: its ID contains another priority", c.Subject, r.Priority)
		}
	}
	old := c.old
	if c.from != "" { // the time of creation is that of another znode
		copied := *c.old
		copied.created, old = 0, &copied
		record = withFormer(record, old.ref.id)
	}
	if c.data, err = encode(c.ref, record, t.withUploadPath(c), old, t.launcherOf(c)); err != nil {
		return err
	}
	c.same = c.from == "" && c.old != nil && bytes.Equal(c.data, c.old.data)
	return nil
}

// withFormer adds the present path of an upload to its former ones.
func withFormer(record resources.Record, path string) resources.Record {
	u, ok := record.(*resources.Upload)
	if !ok {
		return record
	}
	moved := *u
	moved.Former = append(slices.Clone(u.Former), path)
	return &moved
}

// launcherOf returns the launcher ID that the document of a new node gets.
func (t *transactions) launcherOf(c *change) string {
	n, ok := c.Record.(*resources.Node)
	if !ok || n.Static || c.old != nil && c.old.record != nil {
		return ""
	}
	return t.presence.launcherID(n.Provider, n.Pool)
}

// withUploadPath returns the record with the path of a node's upload in place of npctl's ID, which other programs do
// not know.
func (t *transactions) withUploadPath(c *change) resources.Record {
	r, ok := c.Record.(*resources.Node)
	if !ok {
		return c.Record
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	at, z := t.cache.find(resources.Key{Kind: resources.KindUpload, ID: t.cache.uploadAt(r.Upload)})
	if z == nil {
		return r
	}
	public := *r
	public.Upload = parsePath(at).id
	return &public
}

// isNoop reports whether the change leaves the record as it is.
func (c *change) isNoop() bool { return c.same || c.Record == nil && c.old == nil }

// writes reports whether the change writes the record or its lock.
func (c *change) writes() bool { return !c.isNoop() || c.claims || c.ends != nil }

// unchanged sets the results of changes that change nothing.
func (t *transactions) unchanged(changes []*change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range changes {
		if c.same {
			c.result = t.cache.entryOf(c.old)
		}
	}
}

// locksFor returns the lock directories in which to queue for records that no process has claimed.
func (t *transactions) locksFor(changes []*change) ([]string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var dirs []string
	for _, c := range changes {
		own := t.locks.claims[c.Subject]
		c.dir, c.fenced, c.ends = "", false, nil
		if c.claims = c.Claim && own == nil; c.Release && c.Record != nil {
			c.ends = own
		}
		if !c.writes() {
			continue
		}
		if own != nil {
			if own.lostClosed {
				return nil, fmt.Errorf("claim of %s: %w", c.Subject, state.ErrLost)
			}
			continue
		}
		dir := c.lockDir()
		ours := dir != "" && t.locks.claimedDir(dir)
		if dir == "" || ours && !c.claims {
			continue
		}
		if ours { // by the claim of another build or upload
			return nil, fmt.Errorf("%s is claimed by another step of this process: %w, %w", c.Subject, state.ErrLocked, state.ErrConflict)
		}
		if t.locks.takenByOthers(dir) {
			return nil, fmt.Errorf("%s is claimed by another process: %w, %w", c.Subject, state.ErrLocked, state.ErrConflict)
		}
		if c.dir, c.fenced = dir, canFence(t.cache, c, dir); !c.fenced && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

// lockDir returns the lock directory that guards the record. Trials, new requests and new nodes need no lock. The lock of a new
// build or upload keeps two processes from working on the same one.
func (c *change) lockDir() string {
	switch {
	case c.Subject.Kind == resources.KindTrial: // its writers ignore the revision
		return ""
	case c.old != nil:
		return claimDir(c.present(), c.old.ref, resources.StateOf(c.old.record))
	case c.imported: // no process works on a record that does not exist
		return ""
	case c.Subject.Kind == resources.KindBuild || c.Subject.Kind == resources.KindUpload:
		return claimDir(c.at, c.ref, resources.StateOf(c.Record))
	default:
		return ""
	}
}
