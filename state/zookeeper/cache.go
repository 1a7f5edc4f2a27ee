package zookeeper

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/resources"
)

// znode is what is known of one znode.
type znode struct {
	place place
	kids  map[string]bool
	born  uint64 // number of the event, or of the moment, at which it came to be known
	moved uint64 // number of the newest event about it

	// of those whose content is read
	known   bool
	version int32
	mzxid   int64
	created int64 // milliseconds since 1970
	data    []byte
	record  resources.Record // nil when there is none, or none that can be read; never changed
	bad     string           // why it cannot be read
	peer    *component
}

// cache is what is known of the tree. It does nothing by itself; whoever has it guards it.
type cache struct {
	nodes   map[string]*znode
	seq     uint64            // counts events
	dirty   map[string]uint64 // what has to be read, and since which event
	tombs   map[string]uint64 // what was deleted while everything is being read; nil otherwise
	queues  map[string]map[string]bool
	records map[resources.Kind]map[string]string // path by id
	sorted  map[resources.Kind][]string          // ids, until one comes or goes
	peers   map[string]*component                // registered pools by id
	news    map[resources.Key]struct{}           // records that have come, changed or gone
}

func newCache() *cache {
	return &cache{nodes: map[string]*znode{}, dirty: map[string]uint64{}, queues: map[string]map[string]bool{},
		records: map[resources.Kind]map[string]string{}, sorted: map[resources.Kind][]string{}, peers: map[string]*component{}, news: map[resources.Key]struct{}{}}
}

// add makes a znode known, with its parents. A record or registration is to be read.
func (c *cache) add(at string) *znode {
	if z := c.nodes[at]; z != nil {
		return z
	}
	z := &znode{place: placeOf(at), born: c.seq}
	c.nodes[at] = z
	if i := strings.LastIndexByte(at, '/'); i > 0 {
		parent := c.add(at[:i])
		if parent.kids == nil {
			parent.kids = map[string]bool{}
		}
		parent.kids[at[i+1:]] = true
	}
	if z.place.role == roleContender && isContender(nameOf(at)) {
		dir := parentOf(at)
		if c.queues[dir] == nil {
			c.queues[dir] = map[string]bool{}
		}
		c.queues[dir][nameOf(at)] = true
	}
	if z.place.hasContent() {
		c.dirty[at] = c.seq
	}
	c.notePause(z.place)
	return z
}

// notePause lists the image of a pause flag that appears or goes among the changed records.
func (c *cache) notePause(p place) {
	if p.role == roleFlag && p.parts[1] == nameOf(imagesDir) && p.parts[3] == pauseName {
		c.news[resources.Key{Kind: resources.KindImage, ID: p.parts[2]}] = struct{}{}
	}
}

// hasContent says whether the znode's data matters.
func (p place) hasContent() bool { return p.role == roleRecord || p.role == roleComponent }

// remove forgets a znode and all below it.
func (c *cache) remove(at string) {
	z := c.nodes[at]
	if z == nil {
		return
	}
	for kid := range maps.Clone(z.kids) {
		c.remove(at + "/" + kid)
	}
	c.setRecord(at, z, nil)
	c.setPeer(z, nil)
	c.notePause(z.place)
	delete(c.nodes, at)
	delete(c.dirty, at)
	if parent := c.nodes[parentOf(at)]; parent != nil {
		delete(parent.kids, nameOf(at))
	}
	if queue := c.queues[parentOf(at)]; queue != nil {
		if delete(queue, nameOf(at)); len(queue) == 0 {
			delete(c.queues, parentOf(at))
		}
	}
	if c.tombs != nil {
		c.tombs[at] = c.seq
	}
}

// event takes in what the server tells of a znode.
func (c *cache) event(kind zk.EventType, at string) {
	c.seq++
	switch kind {
	case zk.EventNodeCreated, zk.EventNodeDataChanged:
		z := c.add(at)
		if z.moved = c.seq; z.place.hasContent() {
			c.dirty[at] = c.seq
		}
	case zk.EventNodeDeleted:
		c.remove(at)
		if c.tombs != nil { // also of what was not known yet: a listing that was asked for before may have it
			c.tombs[at] = c.seq
		}
	}
}

// content is what was read of a znode, or written to it.
type content struct {
	data    []byte
	version int32
	mzxid   int64
	created int64
	record  resources.Record
	bad     string
	peer    *component
}

// put takes in content, unless this or something newer is known.
func (c *cache) put(at string, got content) {
	z := c.add(at)
	if z.known && got.mzxid <= z.mzxid {
		return
	}
	z.known, z.data, z.version, z.mzxid, z.created, z.bad = true, got.data, got.version, got.mzxid, got.created, got.bad
	c.setPeer(z, got.peer)
	c.setRecord(at, z, got.record)
}

func (c *cache) setRecord(at string, z *znode, record resources.Record) {
	old := z.record
	if z.record = record; z.place.role != roleRecord {
		return
	}
	byID := c.records[z.place.kind]
	if byID == nil {
		byID = map[string]string{}
		c.records[z.place.kind] = byID
	}
	if old != nil && (record == nil || record.Key() != old.Key()) {
		c.news[old.Key()] = struct{}{}
		delete(byID, old.Key().ID)
		delete(c.sorted, z.place.kind)
	}
	if record == nil {
		return
	}
	if other := byID[record.Key().ID]; other != "" && other != at { // a copy that somebody has made
		z.record = withID(record, z.place.id)
	}
	c.news[z.record.Key()] = struct{}{}
	if id := z.record.Key().ID; byID[id] == "" {
		byID[id] = at
		delete(c.sorted, z.place.kind)
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

// children takes in a listing that was asked for after the event with number since.
func (c *cache) children(at string, names []string, since uint64) {
	z := c.add(at)
	listed := make(map[string]bool, len(names))
	for _, name := range names {
		listed[name] = true
		if below := at + "/" + name; c.nodes[below] == nil && c.tombs[below] <= since {
			c.add(below)
		}
	}
	for name := range maps.Clone(z.kids) {
		if below := at + "/" + name; !listed[name] && c.nodes[below].born <= since {
			c.remove(below)
		}
	}
}

// find returns the znode of a record.
func (c *cache) find(key resources.Key) (string, *znode) {
	at, ok := c.records[key.Kind][key.ID]
	if !ok {
		return "", nil
	}
	return at, c.nodes[at]
}

// uploadAt is the id of the upload whose path npctl has as an id; the same when it has no other.
func (c *cache) uploadAt(id string) string {
	if at, ok := uploadPath(id); ok {
		if z := c.nodes[at]; z != nil && z.record != nil {
			return z.record.Key().ID
		}
	}
	return id
}

// ids are those of all records of a kind, sorted.
func (c *cache) ids(kind resources.Kind) []string {
	ids, ok := c.sorted[kind]
	if !ok {
		ids = slices.Sorted(maps.Keys(c.records[kind]))
		c.sorted[kind] = ids
	}
	return ids
}

// subtree lists a znode and all below it, the deepest first.
func (c *cache) subtree(at string) []string {
	z := c.nodes[at]
	if z == nil {
		return nil
	}
	var all []string
	for _, kid := range slices.Sorted(maps.Keys(z.kids)) {
		all = append(all, c.subtree(at+"/"+kid)...)
	}
	return append(all, at)
}

const lockMark = "__lock__"

// splitContender reads a name as kazoo does: the ten digits at the end order the contenders, whatever stands before.
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

// prefixOf is what a contender chose for itself.
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
