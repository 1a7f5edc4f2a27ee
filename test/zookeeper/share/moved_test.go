//go:build integration

package share

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

// TestMovedNodesStayWithTheirUsers renames a provider, its pool and a label while Zuul has locked one node and another is
// ready. The locked node is not written until Zuul returns it.
func TestMovedNodesStayWithTheirUsers(t *testing.T) {
	t.Parallel()
	zk := lab.Start(t, 1)
	c := newCloud(t, "one", quick)
	configuration := strings.Replace(openstackProvider("one", 8, 100, "common"), `"common" {}`, `"common" { min_ready = 1 }`, 1)
	before := newMachine(t, zk, "A", configuration, c).start()
	l := newLoad(t, newZuul(t, zk.Env), 1, common, c)
	ctx := t.Context()
	take := func(label string) *node {
		t.Helper()
		id, err := l.request(ctx, wanted{labels: []string{label}})
		testutil.Must(t, err)
		a, err := l.wait(ctx, id)
		testutil.Must(t, err)
		if a.State != "fulfilled" {
			t.Fatalf("request %s is %s, declined by %v", id, a.State, a.Declined)
		}
		held, err := l.accept(ctx, id, a.Nodes)
		testutil.Must(t, err)
		testutil.Must(t, l.state(ctx, held[0], "in-use"))
		return held[0]
	}
	providers := func() (names []string) {
		ids, err := l.children(ctx, nodesRoot)
		testutil.Must(t, err)
		for _, id := range ids {
			n := &node{ID: id}
			if err := l.read(ctx, n); err == nil {
				names = append(names, n.Provider+" "+n.State)
			}
		}
		slices.Sort(names)
		return names
	}
	used := take("common")
	testutil.Await(t, "another node is ready", func() bool { return slices.Equal(providers(), []string{"one in-use", "one ready"}) })
	before.Stop()
	servers := c.servers()

	renamed := strings.NewReplacer(`"one"`, `"two"`, `"main"`, `"fleet"`, `"common"`, `"everyday"`).Replace(configuration) + `
moved {
  from = provider.one
  to   = provider.two
}
moved {
  from = provider.two.pool.main
  to   = provider.two.pool.fleet
}
moved {
  from = label.common
  to   = label.everyday
}
`
	after := newMachine(t, zk, "B", renamed, c)
	out, err := after.command("plan").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "0 to build, 0 to upload, 0 to launch") || !strings.Contains(string(out), "1 record keeps its earlier name") ||
		!strings.Contains(string(out), "0 to delete.") {
		t.Fatalf("plan: %v\n%s", err, out)
	}
	after.start()
	testutil.Await(t, "the ready node is moved, the other one is as Zuul left it", func() bool {
		return slices.Equal(providers(), []string{"one in-use", "two ready"})
	})
	for id := range servers {
		if _, is := c.servers()[id]; !is {
			t.Errorf("server %s was deleted", id)
		}
	}
	testutil.Must(t, errors.Join(l.state(ctx, used, "used"), l.unlock(ctx, used)))
	testutil.Await(t, "the used node is deleted", func() bool { return slices.Equal(providers(), []string{"two ready"}) && len(c.servers()) == 1 })
	next := take("everyday")
	testutil.Must(t, errors.Join(l.state(ctx, next, "used"), l.unlock(ctx, next)))
	testutil.Await(t, "a new node is ready", func() bool { return slices.Equal(providers(), []string{"two ready"}) && len(c.servers()) == 1 })
}
