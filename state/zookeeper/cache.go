package zookeeper

import (
	"maps"
	"net/url"
	"slices"
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
	formerUploads     map[string]string                    // upload ID by former path
	peers             map[string]*component                // registered pools by ID
	changedRecords    map[resources.Key]struct{}           // records that were added, changed or removed
}

func newCache() *cache {
	return &cache{nodes: map[string]*znode{}, dirty: map[string]uint64{}, queues: map[string]map[string]bool{},
		records: map[resources.Kind]map[string]string{}, formerUploads: map[string]string{}, sorted: map[resources.Kind][]string{}, peers: map[string]*component{}, changedRecords: map[resources.Key]struct{}{}}
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

// children applies a listing that was requested after the event with number since.
func (c *cache) children(at string, names []string, since uint64) {
	z := c.add(at)
	listed := make(map[string]bool, len(names))
	for _, name := range names {
		listed[name] = true
		if below := at + "/" + name; c.nodes[below] == nil && !c.deletedAfter(below, since) {
			c.add(below)
		}
	}
	for name := range maps.Clone(z.children) {
		if below := at + "/" + name; !listed[name] && c.nodes[below].knownSince <= since {
			c.remove(below)
		}
	}
}

// node returns a znode, or nil.
func (c *cache) node(at string) *znode { return c.nodes[at] }

// kids returns the names of the children of a znode.
func (c *cache) kids(at string) map[string]bool {
	if z := c.nodes[at]; z != nil {
		return z.children
	}
	return nil
}

// names returns the unescaped names of the children of a znode, sorted.
func (c *cache) names(at string) (names []string) {
	for kid := range c.kids(at) {
		if name, err := url.PathUnescape(kid); err == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// isSet reports whether a flag exists.
func (c *cache) isSet(f string) bool { return c.nodes[f] != nil }

// deletedAfter reports whether a znode was deleted during the load by an event after the one with number since.
func (c *cache) deletedAfter(at string, since uint64) bool { return c.deletedDuringLoad[at] > since }

// isDirty reports whether a znode has changed since it was last read.
func (c *cache) isDirty(at string) bool {
	_, dirty := c.dirty[at]
	return dirty
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
