package zookeeper

import (
	"strings"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

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
