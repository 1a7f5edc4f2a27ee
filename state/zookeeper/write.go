package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// purpose is the reason for an operation in a multi. It determines the meaning of a rejection.
type purpose int

const (
	forLock   purpose = iota // checks that a named lock is held
	forClaim                 // checks that a claim is held
	forRecord                // is a change itself
	forDir                   // creates a directory or flag, or deletes one
	forUnlock                // releases a claim, or a lock that was taken for the commit only
	forEntry                 // creates the contender of a claim
	forFence                 // keeps others out of a lock
	forSerial                // counts the commit and returns its zxid
)

// write is one multi, from its preparation to its result.
type write struct {
	store *Store
	maker *dirCreator
	ops   []any
	why   []purpose
	what  []string        // path or name, for errors
	of    []*change       // for forRecord operations
	lost  map[int]func()  // called if the lock that the operation with this index checks is not held
	gone  map[string]bool // paths that it deletes
	adds  []string        // directories of the records that it creates
	hold  *ownWrite
	over  []*contender // contenders that end with it

	claims  []*claim    // claims that it makes
	entries []madeClaim // contenders that it creates for claims
}

// madeClaim is a contender with the index of the operation that creates it.
type madeClaim struct {
	*contender
	op int
}

// write sends the changes. Locks that were taken only for them end with them.
func (s *Store) write(ctx context.Context, changes []*change, flags []flag, contenders []*contender) error {
	w, err := s.newWrite(changes, flags, contenders)
	if err != nil {
		return err
	}
	defer s.endOwnWrite(w.hold)
	results, failed, err := s.multi(ctx, "write", w.ops)
	if err != nil {
		w.keepContenders(contenders, failed)
		return w.refused(failed, err)
	}
	w.done(results, contenders)
	return nil
}

func (s *Store) newWrite(changes []*change, flags []flag, contenders []*contender) (*write, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &write{store: s, maker: s.newMaker(), lost: map[int]func(){}, gone: map[string]bool{},
		hold: &ownWrite{paths: map[string]bool{}, parents: map[string]bool{}, events: map[string]int{}, gone: map[string]bool{}}}
	w.checks(changes)
	for _, c := range changes {
		if c.old == nil && c.op.Record != nil {
			w.adds = append(w.adds, parentOf(c.at))
		}
	}
	for _, c := range changes {
		if err := w.fence(c, contenders); err != nil {
			return nil, err
		}
	}
	for _, c := range changes {
		w.change(c)
	}
	for _, f := range flags {
		w.flag(f)
	}
	w.endClaims(changes)
	for _, c := range w.makeClaims(changes, contenders) {
		if c.releasing = true; !w.gone[c.path] {
			w.remove(c.path, -1, forUnlock)
		}
	}
	w.add(&zk.SetDataRequest{Path: s.serverPath(serialAt), Version: -1}, forSerial, serialAt, nil)
	s.ownWrites[w.hold] = struct{}{}
	return w, nil
}

func (w *write) add(op any, why purpose, what string, of *change) {
	w.ops, w.why, w.what, w.of = append(w.ops, op), append(w.why, why), append(w.what, what), append(w.of, of)
}

func (w *write) remove(at string, version int32, why purpose) {
	w.gone[at] = true
	w.add(&zk.DeleteRequest{Path: w.store.serverPath(at), Version: version}, why, at, nil)
}

// checks makes the multi fail unless all named locks and the claims of the changes are held.
func (w *write) checks(changes []*change) {
	s := w.store
	for l := range s.locks {
		w.check(l.contender, forLock)
	}
	checked := map[*contender]bool{}
	for _, c := range changes {
		own := s.claims[c.key]
		if own == nil && c.dir == "" && !c.isNoop() {
			own = s.claimIn(c.lockDir())
		}
		if own != nil && !checked[own.contender] {
			checked[own.contender] = true
			w.check(own.contender, forClaim)
		}
	}
}

func (s *Store) claimIn(dir string) *claim {
	for _, c := range s.claims {
		if c.dir == dir {
			return c
		}
	}
	return nil
}

func (w *write) check(c *contender, why purpose) {
	w.lost[len(w.ops)] = func() { c.markLost() }
	w.add(&zk.CheckVersionRequest{Path: w.store.serverPath(c.path), Version: -1}, why, c.dir, nil)
}

// endClaims removes the contenders of claims that end with the commit.
func (w *write) endClaims(changes []*change) {
	for _, c := range changes {
		if c.ends != nil {
			c.ends.releasing = true
			w.over = append(w.over, c.ends.contender)
			w.remove(c.ends.path, -1, forUnlock)
		}
	}
}

// makeClaims creates a contender for each claim of a fenced lock, which makes it the first in the queue, and keeps
// contenders that are already in a queue. It returns the other contenders.
func (w *write) makeClaims(changes []*change, contenders []*contender) (others []*contender) {
	kept := map[*contender]bool{}
	for _, c := range changes {
		if !c.claims {
			continue
		}
		i := slices.IndexFunc(contenders, func(queued *contender) bool { return queued.dir == c.dir })
		if i >= 0 {
			kept[contenders[i]] = true
			w.check(contenders[i], forClaim)
			w.claims = append(w.claims, &claim{contender: contenders[i], store: w.store, key: c.key})
			continue
		}
		made, op := w.store.newContender(c.dir, nil)
		w.entries = append(w.entries, madeClaim{made, len(w.ops)})
		w.add(op, forEntry, c.dir, nil)
		w.claims = append(w.claims, &claim{contender: made, store: w.store, key: c.key})
	}
	return slices.DeleteFunc(slices.Clone(contenders), func(c *contender) bool { return kept[c] })
}

// change adds the operations of one change. Store.mu is held.
func (w *write) change(c *change) {
	switch {
	case c.isNoop() && c.old != nil: // checked together with other changes, so that a revision conflict still counts
		w.add(&zk.CheckVersionRequest{Path: w.store.serverPath(c.at), Version: c.old.version}, forRecord, c.at, c)
	case c.isNoop():
	case c.op.Record == nil:
		w.delete(c)
	case c.old != nil:
		w.set(c, c.old.version)
	default:
		w.create(c)
	}
}

func (w *write) set(c *change, version int32) {
	w.hold.paths[c.at] = true
	w.add(&zk.SetDataRequest{Path: w.store.serverPath(c.at), Data: c.data, Version: version}, forRecord, c.at, c)
}

func (w *write) create(c *change) {
	if z := w.store.cache.nodes[c.at]; z != nil && z.known && len(z.data) == 0 && c.key.Kind == resources.KindBuild {
		w.set(c, z.version) // its uploads exist already
		return
	}
	w.createParents(parentOf(c.at))
	op := &zk.CreateRequest{Path: w.store.serverPath(c.at), Data: c.data, Acl: openACL}
	if c.number {
		op.Path, op.Flags = w.store.serverPath(c.at+c.prefix()), zk.FlagSequence
		w.hold.parents[parentOf(c.at)] = true
	} else {
		w.hold.paths[c.at] = true
		w.maker.made[c.at] = true
	}
	w.add(op, forRecord, c.at, c)
	if c.counter != nil {
		w.add(c.counter, forDir, uploadsAt, nil)
	}
}

// createParents creates the missing directories.
func (w *write) createParents(dir string) {
	before := len(w.maker.ops)
	w.maker.dir(dir)
	for i, op := range w.maker.ops[before:] {
		w.add(op, forDir, w.maker.paths[before+i], nil)
	}
}

// delete removes a record with its descendants, and the lock of a request, which is beside it. The znode of a build
// that still has uploads remains, without data.
func (w *write) delete(c *change) {
	known := w.store.cache
	w.hold.paths[c.at] = true
	if c.key.Kind == resources.KindBuild && w.hasUploads(c.at) {
		w.add(&zk.SetDataRequest{Path: w.store.serverPath(c.at), Version: c.old.version}, forRecord, c.at, c)
		return
	}
	if c.key.Kind == resources.KindRequest {
		w.removeAll(requestLocks + "/" + c.key.ID)
	}
	below := known.subtree(c.at)
	for _, at := range below[:len(below)-1] {
		w.removeOnce(at)
	}
	w.remove(c.at, c.old.version, forRecord)
	w.of[len(w.of)-1] = c
	if c.key.Kind == resources.KindUpload {
		w.emptyBuild(c.at)
	}
}

func (w *write) removeAll(top string) {
	for _, at := range w.store.cache.subtree(top) {
		w.removeOnce(at)
	}
}

// removeOnce deletes a znode of any version, unless this write already deletes it.
func (w *write) removeOnce(at string) {
	if w.gone[at] {
		return
	}
	if c := w.store.ownContenders[prefixOf(nameOf(at))]; c != nil && c.dir == parentOf(at) {
		c.releasing = true
		w.over = append(w.over, c)
	}
	w.remove(at, -1, forDir)
}

// hasUploads reports whether a build has uploads that this commit keeps or creates.
func (w *write) hasUploads(build string) bool {
	if slices.ContainsFunc(w.adds, func(dir string) bool { return strings.HasPrefix(dir, build+"/") }) {
		return true
	}
	return slices.ContainsFunc(w.store.cache.subtree(build), func(at string) bool {
		p := parsePath(at)
		return p.role == roleRecord && p.kind == resources.KindUpload && !w.gone[at]
	})
}

// emptyBuild removes the znode of a deleted build together with its last upload.
func (w *write) emptyBuild(upload string) {
	build := strings.Join(strings.Split(upload, "/")[:6], "/")
	z := w.store.cache.nodes[build]
	if z != nil && z.known && len(z.data) == 0 && !w.hasUploads(build) && !w.hold.paths[build] {
		w.removeAll(build)
	}
}

// refused translates the rejection of the operation with index i.
func (w *write) refused(i int, err error) error {
	if i < 0 {
		return err
	}
	s := w.store
	s.mu.Lock()
	defer s.mu.Unlock()
	switch w.why[i] {
	case forLock, forClaim:
		if w.lost[i](); errors.Is(err, zk.ErrNoNode) {
			return fmt.Errorf("lock %s: %w", w.what[i], state.ErrLost)
		}
	case forUnlock:
		if errors.Is(err, zk.ErrNoNode) {
			return fmt.Errorf("lock %s: %w", w.what[i], state.ErrLost)
		}
	case forFence:
		return fenceError(s.serverPath(w.what[i]), err)
	case forSerial:
		return fmt.Errorf("%s, which npctl created, no longer exists; restart npctl: %w", s.serverPath(serialAt), err)
	case forRecord:
		if c := w.of[i]; !c.op.Force && isConflict(err) {
			return fmt.Errorf("%s: %w: %w", c.key, state.ErrConflict, err)
		}
	}
	if isConflict(err) || errors.Is(err, zk.ErrNotEmpty) {
		return fmt.Errorf("%w: %s: %w", errRetry, w.what[i], err)
	}
	return err
}

func isConflict(err error) bool {
	return errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNodeExists)
}

// keepContenders restores the contenders that a failed write should have deleted and drops the ones to be
// created. If ZooKeeper rejected no operation, they may exist after all, and the upkeep deletes them as soon as they
// appear.
func (w *write) keepContenders(contenders []*contender, failed int) {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	for _, c := range w.entries {
		if failed < 0 {
			w.store.orphan(c.contender)
		}
		delete(w.store.ownContenders, c.prefix)
	}
	for _, c := range slices.Concat(w.over, contenders) {
		if c.releasing = false; !c.exists {
			c.markLost()
		}
	}
}

// done stores the written records in the cache. All of them have the zxid of the multi, which the serial's stat
// contains.
func (w *write) done(results []zk.MultiResponse, contenders []*contender) {
	s := w.store
	serial := results[len(results)-1].Stat
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range slices.Concat(w.over, contenders) {
		if w.keeps(c) {
			continue
		}
		c.released, c.exists = true, false
		delete(s.ownContenders, c.prefix)
	}
	maps.DeleteFunc(s.claims, func(_ resources.Key, c *claim) bool { return slices.Contains(w.over, c.contender) })
	for _, c := range w.entries {
		s.noteMade(c.contender, results[c.op])
	}
	for _, c := range w.claims {
		s.claims[c.key] = c
	}
	for i, c := range w.of {
		if c != nil {
			w.result(c, results[i], serial)
		}
	}
	s.hintAll()
}

// keeps reports whether a contender belongs to a claim that the write makes.
func (w *write) keeps(c *contender) bool {
	return slices.ContainsFunc(w.claims, func(made *claim) bool { return made.contender == c })
}

// result stores one written record in the cache. One event is its own; if there were more, the feed reads the znode.
func (w *write) result(c *change, r zk.MultiResponse, serial *zk.Stat) {
	s := w.store
	if c.same {
		c.result = s.entryOf(c.old)
		return
	}
	at := c.at
	got := content{data: c.data, version: 0, mzxid: serial.Mzxid, created: serial.Mtime}
	if r.String != "" {
		at = strings.TrimPrefix(r.String, s.opts.Chroot)
	} else if r.Stat != nil {
		got.version, got.created = r.Stat.Version, r.Stat.Ctime
	}
	if w.gone[at] {
		return
	}
	got = s.decode(parsePath(at), got)
	if got.record != nil {
		c.result = state.Entry{Record: s.withResolvedIDs(clone(got.record)), Revision: state.Revision(got.mzxid)}
	}
	if w.hold.gone[at] {
		return
	}
	s.cache.put(at, got)
	if w.hold.events[at] <= 1 {
		delete(s.cache.dirty, at)
	}
}

func (s *Store) endOwnWrite(h *ownWrite) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ownWrites, h)
	hint(s.wake)
}
