//go:build integration

package watch

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/resources"
)

// nodeUse is one use of a node: from its assignment to a user until the user has returned it or can no longer rely on
// it.
type nodeUse struct {
	node        wire.Node
	user        string
	from, until time.Time
}

// nodeUses holds all uses of nodes.
type nodeUses struct {
	mu  sync.Mutex
	all []*nodeUse // guarded by mu
}

// recordStart records that a user has received a node. Its times are those of the daemon, which runs on the same clock.
func (h *nodeUses) recordStart(n wire.Node, user string) *nodeUse {
	one := &nodeUse{node: n, user: user, from: n.StateTime}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, one)
	return one
}

// recordEnd records until when the user certainly had the node.
func (h *nodeUses) recordEnd(one *nodeUse, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one.until = at
}

func (h *nodeUses) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.all)
}

// overlaps lists nodes that two users had at a time, and cloud servers that had a second user.
func (h *nodeUses) overlaps() (found []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	byNode, byServer := map[string][]*nodeUse{}, map[string][]*nodeUse{}
	for _, one := range h.all {
		byNode[one.node.ID] = append(byNode[one.node.ID], one)
		if !one.node.Static {
			server := one.node.Provider + "/" + one.node.ExternalID
			byServer[server] = append(byServer[server], one)
		}
	}
	for node, uses := range byNode {
		slices.SortFunc(uses, func(a, b *nodeUse) int { return a.from.Compare(b.from) })
		for i := range uses[1:] {
			if before, after := uses[i], uses[i+1]; !before.node.Static || after.from.Before(before.until) {
				found = append(found, fmt.Sprintf("node %s was assigned to %s at %s, which %s had from %s to %s", node, after.user, after.from,
					before.user, before.from, before.until))
			}
		}
	}
	for server, uses := range byServer {
		if len(uses) > 1 && uses[0].node.ID != uses[1].node.ID {
			found = append(found, fmt.Sprintf("server %s was assigned as node %s and as node %s", server, uses[0].node.ID, uses[1].node.ID))
		}
	}
	return found
}

func TestNodesWithTwoUsersAreDetected(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	cloud := func(id, server string, from int) wire.Node {
		return wire.Node{Node: resources.Node{ID: id, Provider: "one", ExternalID: server, StateTime: at(from)}}
	}
	slot := func(from int) wire.Node {
		return wire.Node{Node: resources.Node{ID: "1", Provider: "rack", Static: true, StateTime: at(from)}}
	}
	for _, test := range []struct {
		what  string
		nodes []wire.Node // each use lasts 10 s
		want  int
	}{
		{"one slot, one after the other", []wire.Node{slot(10), slot(20), slot(0)}, 0},
		{"one slot, overlapping", []wire.Node{slot(20), slot(11)}, 1},
		{"two servers", []wire.Node{cloud("1", "a", 0), cloud("2", "b", 0)}, 0},
		{"one server again, which had to be deleted", []wire.Node{cloud("1", "a", 0), cloud("1", "a", 100)}, 1},
		{"one server as two nodes", []wire.Node{cloud("1", "a", 0), cloud("2", "a", 100)}, 1},
	} {
		var h nodeUses
		for _, n := range test.nodes {
			h.recordEnd(h.recordStart(n, "somebody"), n.StateTime.Add(10*time.Second))
		}
		if found := h.overlaps(); len(found) != test.want {
			t.Errorf("%s: %q, want %d", test.what, found, test.want)
		}
	}
}
