//go:build integration

package share

import (
	"strings"
	"testing"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

func TestLeakedServerIsDeleted(t *testing.T) {
	t.Parallel()
	zk := lab.Start(t, 1)
	c := newCloud(t, "one", quick)
	provider := strings.Replace(openstackProvider("one", 2, 100, "common"), `"common" {}`, `"common" { min_ready = 1 }`, 1)
	m := newMachine(t, zk, "A", provider, c).start()
	m.mustRun("node", "delete", m.awaitReadyNode("")) // so that the ID of the next one is not zero
	leaked := m.awaitReadyNode("0000000000")
	m.Kill()
	newZuul(t, zk.Env).deleteTree(t.Context(), "/nodepool/nodes/"+leaked)

	m.start()
	testutil.Await(t, "the server without a record is deleted, and another one is created", func() bool {
		servers := c.servers()
		for _, node := range servers {
			if node == leaked {
				return false
			}
		}
		return len(servers) == 1
	})
	if m.Logged("older than the clouds") > 0 {
		t.Error("npctl reports that the state is older than the cloud")
	}
}

// readyNode returns the ID of the only node if that is ready; else "".
func (m *machine) readyNode() string {
	nodes, err := m.Nodes(m.t.Context(), wire.NodeFilter{})
	if err != nil || len(nodes) != 1 || nodes[0].State != "ready" {
		return ""
	}
	return nodes[0].ID
}

// awaitReadyNode waits until the only node is ready and not the excluded one.
func (m *machine) awaitReadyNode(excluded string) (id string) {
	m.t.Helper()
	testutil.Await(m.t, "a node is ready", func() bool {
		id = m.readyNode()
		return id != "" && id != excluded
	})
	return id
}
