package zookeeper

import (
	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/resources"
)

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
