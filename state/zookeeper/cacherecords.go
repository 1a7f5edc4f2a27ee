package zookeeper

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

func (c *cache) setRecord(at string, z *znode, record resources.Record) {
	old := z.record
	if z.record = record; z.ref.role != roleRecord {
		return
	}
	c.setFormer(old, record)
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
		z.record = state.WithID(record, z.ref.id)
	}
	c.changedRecords[z.record.Key()] = struct{}{}
	if id := z.record.Key().ID; byID[id] == "" {
		byID[id] = at
		delete(c.sorted, z.ref.kind)
	}
}

// setFormer indexes the former paths of an upload.
func (c *cache) setFormer(old, now resources.Record) {
	if u, ok := old.(*resources.Upload); ok {
		for _, path := range u.Former {
			delete(c.formerUploads, path)
		}
	}
	if u, ok := now.(*resources.Upload); ok {
		for _, path := range u.Former {
			c.formerUploads[path] = u.ID
		}
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

// find returns the path and the znode of a record.
func (c *cache) find(key resources.Key) (string, *znode) {
	at, ok := c.records[key.Kind][key.ID]
	if !ok {
		return "", nil
	}
	return at, c.nodes[at]
}

// uploadAt returns the ID of the upload that has or had the path that id stands for, or id itself if there is no such
// upload.
func (c *cache) uploadAt(id string) string {
	if at, ok := uploadPath(id); ok {
		if z := c.nodes[at]; z != nil && z.record != nil {
			return z.record.Key().ID
		}
	}
	return cmp.Or(c.formerUploads[id], id)
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

// takeChanges returns the keys of the records that changed since its previous call.
func (c *cache) takeChanges() map[resources.Key]struct{} {
	keys := c.changedRecords
	c.changedRecords = map[resources.Key]struct{}{}
	return keys
}

// emptyRecords lists the records without data that were created before a time in milliseconds since 1970.
func (c *cache) emptyRecords(before int64) (paths []string) {
	for at, z := range c.nodes {
		if z.ref.role == roleRecord && z.known && len(z.data) == 0 && z.created <= before {
			paths = append(paths, at)
		}
	}
	return paths
}

// components returns the registered pools by ID, in the order of the IDs.
func (c *cache) components() iter.Seq2[string, *component] {
	return func(yield func(string, *component) bool) {
		for _, id := range slices.Sorted(maps.Keys(c.peers)) {
			if !yield(id, c.peers[id]) {
				return
			}
		}
	}
}

// entryOf returns a record as it leaves the store.
func (c *cache) entryOf(z *znode) state.Entry {
	if z.record == nil {
		return state.Entry{}
	}
	return state.Entry{Record: c.withResolvedIDs(clone(z.record)), Revision: state.Revision(z.mzxid)}
}

// withResolvedIDs fills in data of other records: the pools that declined a request, and the ID of a node's upload.
func (c *cache) withResolvedIDs(record resources.Record) resources.Record {
	switch r := record.(type) {
	case *resources.Node:
		if hasPath(r) {
			r.Upload = c.uploadAt(r.Upload)
		}
	case *resources.Request:
		for i, d := range r.Declined {
			if peer := c.peers[d.PoolID]; whole(d) && d.Provider == "" && peer != nil {
				r.Declined[i].Provider, r.Declined[i].Pool = peer.Provider, peer.Pool
			}
		}
	}
	return record
}

// guards calls f for each record that the lock in dir guards.
func (c *cache) guards(dir string, f func(resources.Key)) {
	if strings.HasPrefix(dir, requestLocks+"/") {
		f(resources.Key{Kind: resources.KindRequest, ID: nameOf(dir)})
		return
	}
	above := parentOf(dir)
	if p := parsePath(above); p.role == roleRecord {
		if z := c.node(above); z != nil && z.record != nil {
			f(z.record.Key())
		}
		return
	}
	beside := c.node(above)
	if beside == nil {
		return
	}
	for name := range beside.children {
		z := c.node(above + "/" + name)
		if z != nil && z.record != nil && claimDir(above+"/"+name, z.ref, resources.StateOf(z.record)) == dir {
			f(z.record.Key())
		}
	}
}

func hasPath(n *resources.Node) bool { return strings.Contains(n.Upload, "/") }

// clone returns a copy of a shared record that shares no memory with the cache.
func clone(record resources.Record) resources.Record {
	switch r := record.(type) {
	case *resources.Request:
		c := *r
		c.Labels, c.Data, c.Nodes, c.Declined = slices.Clone(r.Labels), slices.Clone(r.Data), slices.Clone(r.Nodes), slices.Clone(r.Declined)
		return &c
	case *resources.Node:
		c := *r
		c.Labels, c.HostKeys, c.Attributes = slices.Clone(r.Labels), slices.Clone(r.HostKeys), maps.Clone(r.Attributes)
		if r.Lease != nil {
			lease := *r.Lease
			c.Lease = &lease
		}
		return &c
	case *resources.Build:
		c := *r
		c.Files, c.Extra = slices.Clone(r.Files), maps.Clone(r.Extra)
		return &c
	case *resources.Upload:
		c := *r
		c.Former = slices.Clone(r.Former)
		return &c
	case *resources.Trial:
		c := *r
		return &c
	default:
		return record
	}
}

func shared(kind resources.Kind) bool {
	switch kind {
	case resources.KindRequest, resources.KindNode, resources.KindBuild, resources.KindUpload, resources.KindTrial:
		return true
	default:
		return false
	}
}

// knownState reports whether resources.LegalTransition has rules for a state. Other programs may write further states.
func knownState(kind resources.Kind, s resources.State) bool {
	return resources.LegalTransition(kind, s, resources.StateDeleting) || resources.LegalTransition(kind, s, resources.StateFailed) ||
		resources.LegalTransition(kind, s, resources.StateReady)
}
