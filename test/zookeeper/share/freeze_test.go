//go:build integration

package share

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

// mustRun runs a command of npctl, which must succeed.
func (m *machine) mustRun(args ...string) {
	m.t.Helper()
	if out, err := m.command(args...).CombinedOutput(); err != nil {
		m.t.Fatalf("npctl %s at %s: %v\n%s", strings.Join(args, " "), m.name, err, out)
	}
}

func TestStandbySkipsFrozenProvider(t *testing.T) {
	t.Parallel()
	zk := lab.Start(t, 1)
	c := newCloud(t, "one", quick)
	provider := strings.Replace(openstackProvider("one", 2, 100, "common"), `"common" {}`, `"common" { min_ready = 1 }`, 1)
	a, b := newMachine(t, zk, "A", provider, c).start(), newMachine(t, zk, "B", provider, c).start()
	testutil.Await(t, "a server exists", func() bool { return b.readyNode() != "" })
	before := c.servers()

	a.mustRun("freeze", "one")
	testutil.Await(t, "the standby reports the freeze", func() bool { return b.provider("one").Frozen })
	a.Kill()
	testutil.Await(t, "the standby takes over", func() bool { return b.Logged(serves) == 1 })
	b.mustRun("node", "delete", b.readyNode())
	time.Sleep(3 * time.Second) // several passes
	if now := c.servers(); !maps.Equal(before, now) || !b.provider("one").Frozen {
		t.Errorf("the standby has taken over and changed the frozen provider: there were %v, and now %v", before, now)
	}

	a.start() // it is a standby now
	b.mustRun("thaw", "one")
	testutil.Await(t, "the process that froze the provider receives the thaw", func() bool { p := a.provider("one"); return p.Name == "one" && !p.Frozen })
	testutil.Await(t, "the server is deleted, and another one exists", func() bool {
		for id := range c.servers() {
			if _, old := before[id]; old {
				return false
			}
		}
		return a.readyNode() != ""
	})
}
