//go:build integration

package share

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

// TestRecordsOfNodepoolAreForgottenAfterItHasGone removes the records of a provider of Nodepool, with npctl watch running
// and without.
func TestRecordsOfNodepoolAreForgottenAfterItHasGone(t *testing.T) {
	t.Parallel()
	zk := lab.Start(t, 1)
	nodepool := lab.StartLauncher(t, zk, lab.Nodepool{Driver: "static", Provider: "nodepool", Nodes: ofNodepool, Labels: []string{"theirs"}})
	m := newMachine(t, zk, "npctl", staticProvider("rack", 1, 100, "ours")).start()
	l := newLoad(t, newZuul(t, zk.Env), 1, func(*rand.Rand) wanted { return wanted{} })
	recorded := func(provider string) (ids []string) {
		t.Helper()
		all, err := l.children(t.Context(), nodesRoot)
		testutil.Must(t, err)
		for _, id := range all {
			n := &node{ID: id}
			if err := l.read(t.Context(), n); err == nil && n.Provider == provider {
				ids = append(ids, id)
			}
		}
		return ids
	}
	testutil.Await(t, "both are registered and Nodepool has its nodes", func() bool {
		return l.pools() == 2 && len(recorded("nodepool")) == ofNodepool && len(recorded("rack")) == 1
	})
	refused := func(want string, args ...string) {
		t.Helper()
		out, err := m.command(append([]string{"state", "rm"}, args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("npctl state rm %s: %v, want %q\n%s", strings.Join(args, " "), err, want, out)
		}
		if n := len(recorded("nodepool")); n != ofNodepool {
			t.Fatalf("%d records of Nodepool are left, want %d", n, ofNodepool)
		}
	}
	refused("provider nodepool is registered by", "-auto-approve", "provider.nodepool")

	testutil.Must(t, nodepool.Kill())
	testutil.Await(t, "the registration of Nodepool is gone", func() bool { return l.pools() == 1 })
	refused("cannot ask for approval", "provider.nodepool")
	first := recorded("nodepool")[0]
	m.mustRun("state", "rm", "-auto-approve", "node."+first)
	if now := recorded("nodepool"); len(now) != ofNodepool-1 || len(recorded("rack")) != 1 {
		t.Errorf("after one record was forgotten, %v are left", now)
	}
	m.Stop()
	m.mustRun("state", "rm", "-auto-approve", "provider.nodepool")
	if now := recorded("nodepool"); len(now) != 0 || len(recorded("rack")) != 1 {
		t.Errorf("after all records were forgotten, %v are left", now)
	}
}
