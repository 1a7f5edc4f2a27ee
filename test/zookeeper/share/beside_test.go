//go:build integration

package share

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

// pair is npctl with provider "npctl" and a real nodepool-launcher with provider "nodepool".
type pair struct {
	*load
	t        *testing.T
	zk       *lab.Lab
	npctl    *machine
	nodepool *lab.Launcher
}

const (
	ofNpctl    = 6 // number of machines
	ofNodepool = 3
)

func newPair(t *testing.T) *pair {
	zk := lab.Start(t, 1)
	nodepool := lab.StartLauncher(t, zk, lab.Nodepool{Driver: "static", Provider: "nodepool", Nodes: ofNodepool, Labels: []string{"common", "theirs"}})
	c := newCloud(t, "npctl", quick)
	p := &pair{t: t, zk: zk, nodepool: nodepool}
	p.npctl = newMachine(t, zk, "npctl", openstackProvider("npctl", ofNpctl, 100, "common", "ours"), c).start()
	p.load = newLoad(t, newZuul(t, zk.Env), 1, common, c)
	testutil.Await(t, "both are registered", func() bool { return p.pools() == 2 })
	return p
}

// pools counts the registered pools.
func (l *load) pools() int {
	names, _ := l.children(l.over, poolsRoot)
	return len(names)
}

// one makes a request and returns its answer after the nodes were returned, and the provider of the nodes.
func (l *load) one(labels []string, provider string) (a answer, by string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.over), testutil.Patience)
	defer cancel()
	id, err := l.request(ctx, wanted{labels: labels, provider: provider})
	testutil.Must(l.t, err)
	if a, err = l.wait(ctx, id); err != nil {
		l.t.Fatal(err)
	}
	if a.State == "failed" {
		if err := l.delete(ctx, requestsRoot+"/"+id); err != nil {
			l.t.Error(err)
		}
		return a, ""
	}
	held, err := l.accept(ctx, id, a.Nodes)
	testutil.Must(l.t, err)
	l.useAll(ctx, id, held, 0)
	return a, held[0].Provider
}

func TestNpctlBesideNodepool(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	for _, test := range []struct {
		labels       []string
		prefer, want string
	}{
		{[]string{"ours"}, "", "npctl"},
		{[]string{"theirs"}, "", "nodepool"},
		{[]string{"common"}, "npctl", "npctl"},
		{[]string{"common"}, "nodepool", "nodepool"},
		{slices.Repeat([]string{"ours"}, ofNpctl), "", "npctl"},
	} {
		if a, by := p.one(test.labels, test.prefer); by != test.want {
			t.Errorf("a request for %v, preferring %q, was answered by %q with %+v, want %s", test.labels, test.prefer, by, a, test.want)
		}
	}
	for _, labels := range [][]string{{"nobody"}, {"ours", "theirs"}, slices.Repeat([]string{"ours"}, ofNpctl+1)} {
		if a, by := p.one(labels, ""); a.State != "failed" || len(a.Declined) != 2 || len(a.Nodes) > 0 {
			t.Errorf("a request for %v was answered by %q with %+v, want failed and two declines", labels, by, a)
		}
	}

	p.priorities()

	p.begin(6)
	testutil.Await(t, "both serve", func() bool { return p.servedBy("npctl") > 2 && p.servedBy("nodepool") > 2 })

	count := p.servedBy("nodepool")
	p.npctl.Kill()
	testutil.Await(t, "nodepool continues to serve", func() bool { return p.servedBy("nodepool") > count+3 })
	p.npctl.start()
	count = p.servedBy("npctl")
	testutil.Await(t, "npctl serves again", func() bool { return p.servedBy("npctl") > count+3 })

	testutil.Must(t, p.nodepool.Kill())
	killed := time.Now()
	count = p.servedBy("npctl")
	testutil.Await(t, "npctl continues to serve", func() bool { return p.servedBy("npctl") > count+3 })
	testutil.Await(t, "the registrations of nodepool are gone", func() bool { return p.pools() == 1 })
	p.finish() // including requests that nodepool had accepted: npctl takes them over once their locks are gone
	t.Logf("all requests were answered %s after nodepool was killed", time.Since(killed).Round(time.Millisecond))
	if err := p.nodepool.Start(); err != nil { // no other program cleans up its nodes
		t.Fatal(err)
	}
	p.awaitNoLeftovers(testutil.Patience) // Nodepool cleans up once a minute
	p.npctl.Stop()
}

// priorities starts another npctl that also offers nodepool's label, in a pool that goes before nodepool's or after it.
func (p *pair) priorities() {
	for _, test := range []struct {
		priority int
		want     string
	}{{50, "rack"}, {150, "nodepool"}} {
		m := newMachine(p.t, p.zk, "rack", staticProvider("rack", 2, test.priority, "theirs")).start()
		testutil.Await(p.t, "all are registered", func() bool { return p.pools() == 3 })
		if test.want == "rack" {
			testutil.Await(p.t, "Nodepool has heard of it", func() bool { _, by := p.one([]string{"theirs"}, ""); return by == "rack" })
		}
		for range 3 {
			if a, by := p.one([]string{"theirs"}, ""); by != test.want {
				p.t.Errorf("with priority %d of npctl's pool a request was answered by %q with %+v, want %s", test.priority, by, a, test.want)
			}
		}
		m.Stop()
		testutil.Await(p.t, "npctl is gone", func() bool { return p.pools() == 2 })
	}
}
