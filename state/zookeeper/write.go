package zookeeper

import (
	"context"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/resources"
)

// purpose is the reason for an operation in a multi. It determines the meaning of a rejection.
type purpose int

const (
	forLock   purpose = iota // checks that a named lock is held
	forClaim                 // checks that a claim is held
	forRecord                // is a change itself
	forSource                // removes a record from the path that it moves away from
	forDir                   // creates a directory or flag, or deletes one
	forUnlock                // releases a claim, or a lock that was taken for the commit only
	forEntry                 // creates the contender of a claim
	forFence                 // keeps others out of a lock
	forSerial                // counts the commit and returns its zxid
)

// write is one multi, from its preparation to its result.
type write struct {
	session *session
	cache   *cache
	locks   *locks

	maker  *dirCreator
	ops    []any
	why    []purpose
	what   []string           // path or name, for errors
	of     []*change          // for forRecord operations
	locked map[int]*contender // whose lock the operation with this index checks
	gone   map[string]bool    // paths that it deletes
	adds   []string           // directories of the records that it creates
	own    *ownWrite
	over   []*contender // contenders that end with it

	claims  []*claim    // claims that it makes
	entries []madeClaim // contenders that it creates for claims
}

// madeClaim is a contender with the index of the operation that creates it.
type madeClaim struct {
	*contender
	op int
}

// write sends the changes. Locks that were taken only for them end with them.
func (t *transactions) write(ctx context.Context, changes []*change, flags []flag, contenders []*contender) error {
	w, err := t.newWrite(changes, flags, contenders)
	if err != nil {
		return err
	}
	defer t.mirror.endOwnWrite(w.own)
	results, failed, err := t.session.multi(ctx, "write", w.ops)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		w.keepContenders(contenders, failed)
		return w.refused(failed, err)
	}
	w.done(results, contenders)
	t.mirror.hintAll()
	return nil
}

func (t *transactions) newWrite(changes []*change, flags []flag, contenders []*contender) (*write, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := &write{session: t.session, cache: t.cache, locks: t.locks, maker: newDirCreator(t.cache, t.session), locked: map[int]*contender{},
		gone: map[string]bool{}, own: &ownWrite{paths: map[string]bool{}, parents: map[string]bool{}, events: map[string]int{}, gone: map[string]bool{}}}
	w.checks(changes)
	for _, c := range changes {
		if c.Record != nil && (c.old == nil || c.from != "") {
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
	for _, c := range slices.Backward(changes) { // uploads before their build
		if c.from != "" {
			w.delete(c, forSource)
		}
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
	w.add(&zk.SetDataRequest{Path: t.session.serverPath(serialAt), Version: -1}, forSerial, serialAt, nil)
	t.mirror.startOwnWrite(w.own)
	return w, nil
}

func (w *write) add(op any, why purpose, what string, of *change) {
	w.ops, w.why, w.what, w.of = append(w.ops, op), append(w.why, why), append(w.what, what), append(w.of, of)
}

func (w *write) remove(at string, version int32, why purpose) {
	w.gone[at] = true
	w.add(&zk.DeleteRequest{Path: w.session.serverPath(at), Version: version}, why, at, nil)
}

// checks makes the multi fail unless all named locks and the claims of the changes are held.
func (w *write) checks(changes []*change) {
	for l := range w.locks.named {
		w.check(l.contender, forLock)
	}
	checked := map[*contender]bool{}
	for _, c := range changes {
		own := w.locks.claims[c.Subject]
		if own == nil && c.dir == "" && !c.isNoop() {
			own = w.locks.claimIn(c.lockDir())
		}
		if own != nil && !checked[own.contender] {
			checked[own.contender] = true
			w.check(own.contender, forClaim)
		}
	}
}

func (w *write) check(c *contender, why purpose) {
	w.locked[len(w.ops)] = c
	w.add(&zk.CheckVersionRequest{Path: w.session.serverPath(c.path), Version: -1}, why, c.dir, nil)
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
			w.claims = append(w.claims, &claim{contender: contenders[i], locks: w.locks, key: c.key()})
			continue
		}
		made, op := w.locks.newContender(c.dir, nil)
		w.entries = append(w.entries, madeClaim{made, len(w.ops)})
		w.add(op, forEntry, c.dir, nil)
		w.claims = append(w.claims, &claim{contender: made, locks: w.locks, key: c.key()})
	}
	return slices.DeleteFunc(slices.Clone(contenders), func(c *contender) bool { return kept[c] })
}

// change adds the operations of one change. mu is held.
func (w *write) change(c *change) {
	switch {
	case c.isNoop() && c.old != nil: // checked together with other changes, so that a revision conflict still counts
		w.add(&zk.CheckVersionRequest{Path: w.session.serverPath(c.at), Version: c.old.version}, forRecord, c.at, c)
	case c.isNoop():
	case c.Record == nil:
		w.delete(c, forRecord)
	case c.old != nil && c.from == "":
		w.set(c, c.old.version)
	default:
		w.create(c)
	}
}

func (w *write) set(c *change, version int32) {
	w.own.paths[c.at] = true
	w.add(&zk.SetDataRequest{Path: w.session.serverPath(c.at), Data: c.data, Version: version}, forRecord, c.at, c)
}

func (w *write) create(c *change) {
	if z := w.cache.node(c.at); z != nil && z.known && len(z.data) == 0 && c.Subject.Kind == resources.KindBuild {
		w.set(c, z.version) // its uploads exist already
		return
	}
	w.createParents(parentOf(c.at))
	op := &zk.CreateRequest{Path: w.session.serverPath(c.at), Data: c.data, Acl: openACL}
	if c.number {
		op.Path, op.Flags = w.session.serverPath(c.at+c.prefix()), zk.FlagSequence
		w.own.parents[parentOf(c.at)] = true
	} else {
		w.own.paths[c.at] = true
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
func (w *write) delete(c *change, why purpose) {
	at := c.present()
	w.own.paths[at] = true
	if c.Subject.Kind == resources.KindBuild && w.hasUploads(at) {
		w.add(&zk.SetDataRequest{Path: w.session.serverPath(at), Version: c.old.version}, why, at, c)
		return
	}
	if c.Subject.Kind == resources.KindRequest {
		w.removeAll(requestLocks + "/" + c.Subject.ID)
	}
	below := w.cache.subtree(at)
	for _, kid := range below[:len(below)-1] {
		w.removeOnce(kid)
	}
	w.remove(at, c.old.version, why)
	w.of[len(w.of)-1] = c
	if c.Subject.Kind == resources.KindUpload {
		w.emptyBuild(at)
	}
}

func (w *write) removeAll(top string) {
	for _, at := range w.cache.subtree(top) {
		w.removeOnce(at)
	}
}

// removeOnce deletes a znode of any version, unless this write already deletes it.
func (w *write) removeOnce(at string) {
	if w.gone[at] {
		return
	}
	if c := w.locks.ownAt(at); c != nil {
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
	return slices.ContainsFunc(w.cache.subtree(build), func(at string) bool {
		p := parsePath(at)
		return p.role == roleRecord && p.kind == resources.KindUpload && !w.gone[at]
	})
}

// emptyBuild removes the znode of a deleted build together with its last upload.
func (w *write) emptyBuild(upload string) {
	build := strings.Join(strings.Split(upload, "/")[:6], "/")
	z := w.cache.node(build)
	if z != nil && z.known && len(z.data) == 0 && !w.hasUploads(build) && !w.own.paths[build] {
		w.removeAll(build)
	}
}

// dirCreator collects the requests that create missing directories. The mutex of the cache is held while it is in use.
type dirCreator struct {
	cache   *cache
	session *session
	made    map[string]bool
	ops     []any
	paths   []string // of ops
}

func newDirCreator(known *cache, s *session) *dirCreator {
	return &dirCreator{cache: known, session: s, made: map[string]bool{}}
}

// dir adds the creation of a directory and its parents. It never creates the znode of a node, so a lock directory
// cannot recreate a deleted node.
func (m *dirCreator) dir(at string) {
	if at == "" || m.made[at] || m.cache.node(at) != nil {
		return
	}
	if p := parsePath(at); p.kind != resources.KindNode {
		m.dir(parentOf(at))
		m.add(at, nil)
	}
}

func (m *dirCreator) add(at string, data []byte) {
	m.made[at] = true
	m.ops = append(m.ops, &zk.CreateRequest{Path: m.session.serverPath(at), Data: data, Acl: openACL})
	m.paths = append(m.paths, at)
}
