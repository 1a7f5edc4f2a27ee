//go:build integration

package share

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

// TestRemovedProviderKeepsItsServers removes a provider from the configuration while Zuul has locked one node and another
// is ready. npctl refuses while a launcher of Nodepool serves the provider, forgets the locked node after its use, and does
// not forget records of a provider that it never had.
func TestRemovedProviderKeepsItsServers(t *testing.T) {
	t.Parallel()
	zk := lab.Start(t, 1)
	c := newCloud(t, "one", quick)
	lab.StartLauncher(t, zk, lab.Nodepool{Driver: "static", Provider: "nodepool", Nodes: ofNodepool, Labels: []string{"theirs"}})
	configuration := strings.Replace(openstackProvider("one", 8, 100, "common"), `"common" {}`, `"common" { min_ready = 1 }`, 1)
	m := newMachine(t, zk, "A", configuration, c).start()
	l := newLoad(t, newZuul(t, zk.Env), 1, common, c)
	ctx := t.Context()
	recorded := func() (states []string) {
		ids, err := l.children(ctx, nodesRoot)
		testutil.Must(t, err)
		for _, id := range ids {
			n := &node{ID: id}
			if err := l.read(ctx, n); err == nil {
				states = append(states, n.Provider+" "+n.State)
			}
		}
		slices.Sort(states)
		return states
	}
	expect := func(ours ...string) bool {
		theirs := slices.Repeat([]string{"nodepool ready"}, ofNodepool)
		want := slices.Concat(theirs, ours)
		slices.Sort(want)
		return slices.Equal(recorded(), want)
	}
	id, err := l.request(ctx, wanted{labels: []string{"common"}})
	testutil.Must(t, err)
	a, err := l.wait(ctx, id)
	testutil.Must(t, err)
	held, err := l.accept(ctx, id, a.Nodes)
	testutil.Must(t, err)
	testutil.Must(t, l.state(ctx, held[0], "in-use"))
	testutil.Await(t, "another node is ready, and Nodepool has its nodes", func() bool { return expect("one in-use", "one ready") })
	m.Stop()
	servers := c.servers()

	path := filepath.Join(m.dir, "npctl.hcl")
	text, err := os.ReadFile(path)
	testutil.Must(t, err)
	testutil.WriteFile(t, path, strings.Replace(string(text), configuration, `
removed {
  from = provider.one
  lifecycle { destroy = false }
}
removed {
  from = provider.nodepool
  lifecycle { destroy = false }
}
`, 1))
	pools := l.pools()
	launcher := lab.StartLauncher(t, zk, lab.Nodepool{Driver: "fake", Provider: "one", Nodes: 1, Labels: []string{"other"}})
	testutil.Await(t, "the launcher is registered", func() bool { return l.pools() > pools })
	if out, err := m.command("plan").CombinedOutput(); err == nil || !strings.Contains(string(out), "serves the provider and would delete servers without a record") {
		t.Errorf("plan beside the launcher: %v\n%s", err, out)
	}
	testutil.Must(t, launcher.Kill())
	testutil.Await(t, "the registration of the launcher is gone", func() bool { return l.pools() == pools })

	if out, err := m.command("plan").CombinedOutput(); err != nil || !strings.Contains(string(out), "a removed block names it, and the object stays") ||
		!strings.Contains(string(out), "1 to forget, 0 to delete.") {
		t.Fatalf("plan: %v\n%s", err, out)
	}
	m.start()
	testutil.Await(t, "the ready node is forgotten, the other one is as Zuul left it", func() bool { return expect("one in-use") })
	testutil.Must(t, errors.Join(l.state(ctx, held[0], "used"), l.unlock(ctx, held[0])))
	testutil.Await(t, "the used node is forgotten", func() bool { return expect() })
	m.Stop()
	if out, err := m.command("apply", "-auto-approve").CombinedOutput(); err != nil { // the daemon may have forgotten the provider before its end
		t.Errorf("apply: %v\n%s", err, out)
	}
	now := c.servers()
	for id := range servers {
		if tag, is := now[id]; !is || tag != "" {
			t.Errorf("server %s: exists %t, node in its tags %q; want that it stays without tags", id, is, tag)
		}
	}
	if !expect() {
		t.Errorf("the records are %v, want those of Nodepool", recorded())
	}
}
