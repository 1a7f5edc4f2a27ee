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

// purpose is why an op is in a multi, which says what its refusal means.
type purpose int

const (
	forLock   purpose = iota // checks that a named lock is held
	forClaim                 // checks that a claim is held
	forRecord                // is a change itself
	forWay                   // makes a directory, or removes what is below
	forUnlock                // gives back a claim, or what was claimed for the commit only
	forEntry                 // claims
	forBar                   // keeps others out of a lock
	forSerial                // counts the commit, and tells its zxid
)

// write is one multi on its way.
type write struct {
	store *Store
	maker *maker
	ops   []any
	why   []purpose
	what  []string        // path or name, for the errors
	of    []*change       // of forRecord
	lost  map[int]func()  // what to do when the lock that an op checks is not held
	gone  map[string]bool // paths that are deleted by it
	adds  []string        // directories of the records that it makes
	hold  *hold
	over  []*contender // end with it

	claims  []*claim    // that it makes
	entries []madeClaim // of those, the contenders that it makes
}

// madeClaim is a contender with the index of the op that makes it.
type madeClaim struct {
	*contender
	op int
}

// write sends the changes. Locks that were taken for them end with them.
func (s *Store) write(ctx context.Context, changes []*change, flags []flag, contenders []*contender) error {
	w, err := s.newWrite(changes, flags, contenders)
	if err != nil {
		return err
	}
	defer s.endHold(w.hold)
	results, failed, err := s.multi(ctx, "write", w.ops)
	if err != nil {
		w.notOver(contenders, failed)
		return w.refused(failed, err)
	}
	w.done(results, contenders)
	return nil
}

func (s *Store) newWrite(changes []*change, flags []flag, contenders []*contender) (*write, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &write{store: s, maker: s.newMaker(), lost: map[int]func(){}, gone: map[string]bool{},
		hold: &hold{paths: map[string]bool{}, parents: map[string]bool{}, events: map[string]int{}, gone: map[string]bool{}}}
	w.checks(changes)
	for _, c := range changes {
		if c.old == nil && c.op.Record != nil {
			w.adds = append(w.adds, parentOf(c.at))
		}
	}
	for _, c := range changes {
		if err := w.bar(c, contenders); err != nil {
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
		if c.ending = true; !w.gone[c.path] {
			w.remove(c.path, -1, forUnlock)
		}
	}
	w.add(&zk.SetDataRequest{Path: s.at(serialAt), Version: -1}, forSerial, serialAt, nil)
	s.holds[w.hold] = struct{}{}
	return w, nil
}

func (w *write) add(op any, why purpose, what string, of *change) {
	w.ops, w.why, w.what, w.of = append(w.ops, op), append(w.why, why), append(w.what, what), append(w.of, of)
}

func (w *write) remove(at string, version int32, why purpose) {
	w.gone[at] = true
	w.add(&zk.DeleteRequest{Path: w.store.at(at), Version: version}, why, at, nil)
}

// checks lets nothing be written but while all named locks and the changes' claims are held.
func (w *write) checks(changes []*change) {
	s := w.store
	for l := range s.locks {
		w.check(l.contender, forLock)
	}
	checked := map[*contender]bool{}
	for _, c := range changes {
		own := s.claims[c.key]
		if own == nil && c.dir == "" && !c.idle() {
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
	w.lost[len(w.ops)] = func() { c.lose() }
	w.add(&zk.CheckVersionRequest{Path: w.store.at(c.path), Version: -1}, why, c.dir, nil)
}

// endClaims removes the contenders of claims that end with the commit.
func (w *write) endClaims(changes []*change) {
	for _, c := range changes {
		if c.ends != nil {
			c.ends.ending = true
			w.over = append(w.over, c.ends.contender)
			w.remove(c.ends.path, -1, forUnlock)
		}
	}
}

// makeClaims makes a contender for each claim whose lock was barred, which is the first in its queue then, and keeps the
// contenders that are in a queue already. It returns the others.
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

// change adds the ops of one change. Store.mu is held.
func (w *write) change(c *change) {
	switch {
	case c.idle() && c.old != nil: // written with others, so that its revision still counts
		w.add(&zk.CheckVersionRequest{Path: w.store.at(c.at), Version: c.old.version}, forRecord, c.at, c)
	case c.idle():
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
	w.add(&zk.SetDataRequest{Path: w.store.at(c.at), Data: c.data, Version: version}, forRecord, c.at, c)
}

func (w *write) create(c *change) {
	if z := w.store.cache.nodes[c.at]; z != nil && z.known && len(z.data) == 0 && c.key.Kind == resources.KindBuild {
		w.set(c, z.version) // its uploads were there before it
		return
	}
	w.way(parentOf(c.at))
	op := &zk.CreateRequest{Path: w.store.at(c.at), Data: c.data, Acl: openACL}
	if c.number {
		op.Path, op.Flags = w.store.at(c.at+c.prefix()), zk.FlagSequence
		w.hold.parents[parentOf(c.at)] = true
	} else {
		w.hold.paths[c.at] = true
		w.maker.made[c.at] = true
	}
	w.add(op, forRecord, c.at, c)
	if c.counter != nil {
		w.add(c.counter, forWay, uploadsAt, nil)
	}
}

// way makes the directories that are missing.
func (w *write) way(dir string) {
	before := len(w.maker.ops)
	w.maker.dir(dir)
	for i, op := range w.maker.ops[before:] {
		w.add(op, forWay, w.maker.paths[before+i], nil)
	}
}

// delete removes a record with all that is below it, and the lock of a request, which is beside it. A build whose uploads
// are still there leaves its znode to them.
func (w *write) delete(c *change) {
	known := w.store.cache
	w.hold.paths[c.at] = true
	if c.key.Kind == resources.KindBuild && w.hasUploads(c.at) {
		w.add(&zk.SetDataRequest{Path: w.store.at(c.at), Version: c.old.version}, forRecord, c.at, c)
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

// removeOnce removes what nobody writes to.
func (w *write) removeOnce(at string) {
	if w.gone[at] {
		return
	}
	if c := w.store.mine[prefixOf(nameOf(at))]; c != nil && c.dir == parentOf(at) {
		c.ending = true
		w.over = append(w.over, c)
	}
	w.remove(at, -1, forWay)
}

// hasUploads says whether a build has uploads that this commit leaves or makes.
func (w *write) hasUploads(build string) bool {
	if slices.ContainsFunc(w.adds, func(dir string) bool { return strings.HasPrefix(dir, build+"/") }) {
		return true
	}
	return slices.ContainsFunc(w.store.cache.subtree(build), func(at string) bool {
		p := placeOf(at)
		return p.role == roleRecord && p.kind == resources.KindUpload && !w.gone[at]
	})
}

// emptyBuild removes the znode that a deleted build has left to its uploads, with the last of them.
func (w *write) emptyBuild(upload string) {
	build := strings.Join(strings.Split(upload, "/")[:6], "/")
	z := w.store.cache.nodes[build]
	if z != nil && z.known && len(z.data) == 0 && !w.hasUploads(build) && !w.hold.paths[build] {
		w.removeAll(build)
	}
}

// refused says what it means that one of the ops was refused.
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
	case forBar:
		return barRefused(s.at(w.what[i]), err)
	case forSerial:
		return fmt.Errorf("%s, which npctl made there, is gone; start npctl anew: %w", s.at(serialAt), err)
	case forRecord:
		if c := w.of[i]; !c.op.Force && isConflict(err) {
			return fmt.Errorf("%s: %w: %w", c.key, state.ErrConflict, err)
		}
	}
	if isConflict(err) || errors.Is(err, zk.ErrNotEmpty) {
		return fmt.Errorf("%w: %s: %w", errAgain, w.what[i], err)
	}
	return err
}

func isConflict(err error) bool {
	return errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNodeExists)
}

// notOver goes on with the contenders that should have ended with the write, and without those that it should have made:
// when no op was refused, they may have been made after all, and go as soon as they show.
func (w *write) notOver(contenders []*contender, failed int) {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	for _, c := range w.entries {
		if failed < 0 {
			w.store.abandon(c.contender)
		}
		delete(w.store.mine, c.prefix)
	}
	for _, c := range slices.Concat(w.over, contenders) {
		if c.ending = false; !c.there {
			c.lose()
		}
	}
}

// done takes what was written into the cache. All of it has the zxid of the multi, which the serial tells.
func (w *write) done(results []zk.MultiResponse, contenders []*contender) {
	s := w.store
	serial := results[len(results)-1].Stat
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range slices.Concat(w.over, contenders) {
		if w.keeps(c) {
			continue
		}
		c.released, c.there = true, false
		delete(s.mine, c.prefix)
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

// keeps says whether a contender is that of a claim which the write makes.
func (w *write) keeps(c *contender) bool {
	return slices.ContainsFunc(w.claims, func(made *claim) bool { return made.contender == c })
}

// result takes one written record in. Its one event was ours; where there were more, the feed looks.
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
	got = s.decode(placeOf(at), got)
	if got.record != nil {
		c.result = state.Entry{Record: s.named(clone(got.record)), Revision: state.Revision(got.mzxid)}
	}
	if w.hold.gone[at] {
		return
	}
	s.cache.put(at, got)
	if w.hold.events[at] <= 1 {
		delete(s.cache.dirty, at)
	}
}

func (s *Store) endHold(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.holds, h)
	hint(s.wake)
}
