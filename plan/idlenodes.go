package plan

import (
	"cmp"
	"slices"

	"github.com/npctl/npctl/resources"
)

// idleNodes is the ready, unassigned nodes of a pool.
type idleNodes struct {
	nodes  []*resources.Node // idle longest first
	labels map[string]int    // number of nodes with the label
}

// idleNodesOf lists the ready nodes that are assigned to no request and stay.
func idleNodesOf(w *world, d *draft) map[poolKey]*idleNodes {
	all := map[poolKey]*idleNodes{}
	for _, provider := range w.names {
		if !w.reachable(provider) {
			continue
		}
		for _, n := range w.nodes[provider] {
			if n.State == resources.StateReady && n.Request == "" && d.deletedBy[n.Key()] == "" && !w.busy(n.Key()) && !d.updatedRecords[n.Key()] {
				key := poolKey{provider, n.Pool}
				if all[key] == nil {
					all[key] = &idleNodes{labels: map[string]int{}}
				}
				all[key].add(n)
			}
		}
	}
	for _, pool := range all {
		slices.SortFunc(pool.nodes, func(a, b *resources.Node) int {
			return cmp.Or(a.StateTime.Compare(b.StateTime), cmp.Compare(a.ID, b.ID))
		})
	}
	return all
}

func (s *idleNodes) add(n *resources.Node) {
	s.nodes = append(s.nodes, n)
	for _, label := range n.Labels {
		s.labels[label]++
	}
}

func (s *idleNodes) remove(n *resources.Node) {
	s.nodes = slices.DeleteFunc(s.nodes, func(other *resources.Node) bool { return other == n })
	for _, label := range n.Labels {
		s.labels[label]--
	}
}

// zones lists the zones to search: only the wanted one if it is set.
func (s *idleNodes) zones(wanted string) []string {
	if wanted != "" {
		return []string{wanted}
	}
	var zones []string
	for _, n := range s.nodes {
		if !slices.Contains(zones, n.Zone) {
			zones = append(zones, n.Zone)
		}
	}
	slices.Sort(zones)
	return zones
}

// match finds nodes for as many of the unserved labels as possible. The node that is idle longest goes first, unless
// it is the only one for another label.
func (s *idleNodes) match(labels, have []string, zone string, anywhere bool) (nodes []string, n int) {
	m := matching{labels: labels, nodes: make([]string, len(labels)), taken: map[string]int{}}
	for _, node := range s.nodes {
		if anywhere || node.Zone == zone {
			m.from = append(m.from, node)
		}
	}
	for k := range labels {
		if (have == nil || have[k] == "") && (m.take(k) || m.displace(k, map[string]bool{})) {
			n++
		}
	}
	return m.nodes, n
}

// matching assigns nodes to the labels of a request.
type matching struct {
	labels []string
	from   []*resources.Node
	nodes  []string       // by position in labels
	taken  map[string]int // position in labels, by node ID
}

// take gives a label an unassigned node.
func (m *matching) take(k int) bool {
	for _, node := range m.from {
		if _, taken := m.taken[node.ID]; !taken && slices.Contains(node.Labels, m.labels[k]) {
			m.nodes[k], m.taken[node.ID] = node.ID, k
			return true
		}
	}
	return false
}

// displace gives a label the node of another label that can use a different node.
func (m *matching) displace(k int, tried map[string]bool) bool {
	for _, node := range m.from {
		j, taken := m.taken[node.ID]
		if !taken || tried[node.ID] || !slices.Contains(node.Labels, m.labels[k]) {
			continue
		}
		tried[node.ID] = true
		if m.take(j) || m.displace(j, tried) {
			m.nodes[k], m.taken[node.ID] = node.ID, k
			return true
		}
	}
	return false
}
