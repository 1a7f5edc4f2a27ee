package zookeeper

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/resources"
)

// znode is the cached state of one znode.
type znode struct {
	ref        znodeRef
	children   map[string]bool
	knownSince uint64 // value of cache.seq when the znode entered the cache
	changedAt  uint64 // number of the newest event of the znode

	// Set only for znodes with content; see hasContent.
	known       bool
	version     int32
	mzxid       int64
	created     int64 // milliseconds since 1970
	data        []byte
	record      resources.Record // nil if there is none or it cannot be decoded; never modified
	decodeError string           // why the content cannot be decoded
	peer        *component
}

// cache is the in-memory copy of the tree. It makes no calls and has no lock; its owner serializes access.
type cache struct {
	nodes             map[string]*znode
	seq               uint64            // counts events
	dirty             map[string]uint64 // paths to read, with the number of the newest event
	deletedDuringLoad map[string]uint64 // paths deleted during a full load, with the event number; nil otherwise
	queues            map[string]map[string]bool
	records           map[resources.Kind]map[string]string // path by ID
	sorted            map[resources.Kind][]string          // IDs; dropped when a record appears or disappears
	peers             map[string]*component                // registered pools by ID
	changedRecords    map[resources.Key]struct{}           // records that were added, changed or removed
}

func newCache() *cache {
	return &cache{nodes: map[string]*znode{}, dirty: map[string]uint64{}, queues: map[string]map[string]bool{},
		records: map[resources.Kind]map[string]string{}, sorted: map[resources.Kind][]string{}, peers: map[string]*component{}, changedRecords: map[resources.Key]struct{}{}}
}

// add puts a znode and its parents into the cache. A record or registration becomes dirty.
func (c *cache) add(at string) *znode {
	if z := c.nodes[at]; z != nil {
		return z
	}
	z := &znode{ref: parsePath(at), knownSince: c.seq}
	c.nodes[at] = z
	if i := strings.LastIndexByte(at, '/'); i > 0 {
		parent := c.add(at[:i])
		if parent.children == nil {
			parent.children = map[string]bool{}
		}
		parent.children[at[i+1:]] = true
	}
	if z.ref.role == roleContender && isContender(nameOf(at)) {
		dir := parentOf(at)
		if c.queues[dir] == nil {
			c.queues[dir] = map[string]bool{}
		}
		c.queues[dir][nameOf(at)] = true
	}
	if z.ref.hasContent() {
		c.dirty[at] = c.seq
	}
	c.notePause(z.ref)
	return z
}

// notePause adds the image of a pause flag that appears or disappears to the changed records.
func (c *cache) notePause(p znodeRef) {
	if p.role == roleFlag && p.parts[1] == nameOf(imagesDir) && p.parts[3] == pauseName {
		c.changedRecords[resources.Key{Kind: resources.KindImage, ID: p.parts[2]}] = struct{}{}
	}
}

// hasContent reports whether the store reads the data of the znode.
func (p znodeRef) hasContent() bool { return p.role == roleRecord || p.role == roleComponent }

// remove drops a znode and its descendants.
func (c *cache) remove(at string) {
	z := c.nodes[at]
	if z == nil {
		return
	}
	for kid := range maps.Clone(z.children) {
		c.remove(at + "/" + kid)
	}
	c.setRecord(at, z, nil)
	c.setPeer(z, nil)
	c.notePause(z.ref)
	delete(c.nodes, at)
	delete(c.dirty, at)
	if parent := c.nodes[parentOf(at)]; parent != nil {
		delete(parent.children, nameOf(at))
	}
	if queue := c.queues[parentOf(at)]; queue != nil {
		if delete(queue, nameOf(at)); len(queue) == 0 {
			delete(c.queues, parentOf(at))
		}
	}
	if c.deletedDuringLoad != nil {
		c.deletedDuringLoad[at] = c.seq
	}
}

// event applies a watch event.
func (c *cache) event(kind zk.EventType, at string) {
	c.seq++
	switch kind {
	case zk.EventNodeCreated, zk.EventNodeDataChanged:
		z := c.add(at)
		if z.changedAt = c.seq; z.ref.hasContent() {
			c.dirty[at] = c.seq
		}
	case zk.EventNodeDeleted:
		c.remove(at)
		if c.deletedDuringLoad != nil { // also for unknown znodes: a listing that was requested earlier may contain them
			c.deletedDuringLoad[at] = c.seq
		}
	}
}

// content is the data of one version of a znode, as read or as written.
type content struct {
	data    []byte
	version int32
	mzxid   int64
	created int64
	record  resources.Record
	bad     string
	peer    *component
}

// put stores content unless the cache has the same or a newer version.
func (c *cache) put(at string, got content) {
	z := c.add(at)
	if z.known && got.mzxid <= z.mzxid {
		return
	}
	z.known, z.data, z.version, z.mzxid, z.created, z.decodeError = true, got.data, got.version, got.mzxid, got.created, got.bad
	c.setPeer(z, got.peer)
	c.setRecord(at, z, got.record)
}

func (c *cache) setRecord(at string, z *znode, record resources.Record) {
	old := z.record
	if z.record = record; z.ref.role != roleRecord {
		return
	}
	byID := c.records[z.ref.kind]
	if byID == nil {
		byID = map[string]string{}
		c.records[z.ref.kind] = byID
	}
	if old != nil && (record == nil || record.Key() != old.Key()) {
		c.changedRecords[old.Key()] = struct{}{}
		delete(byID, old.Key().ID)
		delete(c.sorted, z.ref.kind)
	}
	if record == nil {
		return
	}
	if other := byID[record.Key().ID]; other != "" && other != at { // a client has copied the record to another path
		z.record = withID(record, z.ref.id)
	}
	c.changedRecords[z.record.Key()] = struct{}{}
	if id := z.record.Key().ID; byID[id] == "" {
		byID[id] = at
		delete(c.sorted, z.ref.kind)
	}
}

func (c *cache) setPeer(z *znode, peer *component) {
	if z.peer != nil && c.peers[z.peer.ID] == z.peer {
		delete(c.peers, z.peer.ID)
	}
	if z.peer = peer; peer != nil && peer.ID != "" {
		c.peers[peer.ID] = peer
	}
}

// children applies a listing that was requested after the event with number since.
func (c *cache) children(at string, names []string, since uint64) {
	z := c.add(at)
	listed := make(map[string]bool, len(names))
	for _, name := range names {
		listed[name] = true
		if below := at + "/" + name; c.nodes[below] == nil && c.deletedDuringLoad[below] <= since {
			c.add(below)
		}
	}
	for name := range maps.Clone(z.children) {
		if below := at + "/" + name; !listed[name] && c.nodes[below].knownSince <= since {
			c.remove(below)
		}
	}
}

// find returns the path and the znode of a record.
func (c *cache) find(key resources.Key) (string, *znode) {
	at, ok := c.records[key.Kind][key.ID]
	if !ok {
		return "", nil
	}
	return at, c.nodes[at]
}

// uploadAt returns the ID of the upload at the path that id stands for, or id itself if there is no such upload.
func (c *cache) uploadAt(id string) string {
	if at, ok := uploadPath(id); ok {
		if z := c.nodes[at]; z != nil && z.record != nil {
			return z.record.Key().ID
		}
	}
	return id
}

// ids returns the IDs of all records of a kind, sorted.
func (c *cache) ids(kind resources.Kind) []string {
	ids, ok := c.sorted[kind]
	if !ok {
		ids = slices.Sorted(maps.Keys(c.records[kind]))
		c.sorted[kind] = ids
	}
	return ids
}

// subtree lists a znode and its descendants, children before parents.
func (c *cache) subtree(at string) []string {
	z := c.nodes[at]
	if z == nil {
		return nil
	}
	var all []string
	for _, kid := range slices.Sorted(maps.Keys(z.children)) {
		all = append(all, c.subtree(at+"/"+kid)...)
	}
	return append(all, at)
}

const lockMark = "__lock__"

// splitContender parses a name as kazoo does: the ten digits at the end order the contenders, whatever the prefix is.
func splitContender(name string) (prefix string, number int64, ok bool) {
	i := strings.LastIndex(name, lockMark)
	if i < 0 {
		return "", 0, false
	}
	digits := name[i+len(lockMark):]
	if len(strings.TrimPrefix(digits, "-")) != sequenceLength || digits[0] == '+' {
		return "", 0, false
	}
	number, err := strconv.ParseInt(digits, 10, 64)
	return name[:i], number, err == nil
}

func isContender(name string) bool {
	_, _, ok := splitContender(name)
	return ok
}

// prefixOf returns the prefix that a contender chose for its name, or "" if name is not that of a contender.
func prefixOf(name string) string {
	prefix, _, ok := splitContender(name)
	if !ok {
		return ""
	}
	return prefix
}

// queue lists the contenders of a lock directory, the holder first.
func (c *cache) queue(dir string) []string {
	return slices.SortedFunc(maps.Keys(c.queues[dir]), compareContenders)
}

func compareContenders(a, b string) int {
	if n, m := contenderNumber(a), contenderNumber(b); n != m {
		return int(max(-1, min(1, n-m)))
	}
	return strings.Compare(a, b)
}

func contenderNumber(name string) int64 {
	_, number, _ := splitContender(name)
	return number
}
