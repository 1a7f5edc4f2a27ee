//go:build integration

package share

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

// TestReloadMovesToOtherServers changes hosts while Zuul uses a node, and then stops the previous server. The daemon keeps
// its locks and serves the next request.
func TestReloadMovesToOtherServers(t *testing.T) {
	t.Parallel()
	zk := lab.Start(t, 3)
	hosts := strings.Split(zk.Hosts, ",")
	c := newCloud(t, "one", quick)
	m := newMachine(t, zk, "A", openstackProvider("one", 2, 100, "common"), c)
	file := filepath.Join(m.dir, "npctl.hcl")
	edit := func(from, to string) {
		t.Helper()
		text, err := os.ReadFile(file)
		testutil.Must(t, err)
		testutil.WriteFile(t, file, strings.Replace(string(text), from, to, 1))
	}
	set := func(from string, to ...string) { t.Helper(); edit(from, `["`+strings.Join(to, `", "`)+`"]`) }
	edit(fmt.Sprintf("%q", session), `"1m"`) // it outlives the election of a leader on a busy machine
	set(`["`+m.link.Address()+`"]`, hosts[0])
	m.start()
	l := newLoad(t, newZuul(t, zk.Env), 1, common, c)
	if a, by := l.one([]string{"common"}, ""); by != "one" {
		t.Fatalf("the first request was answered by %q with %+v", by, a)
	}
	before := l.lockOf("one")

	set(`["`+hosts[0]+`"]`, "127.0.0.1:1")
	if out, err := m.command("reload").CombinedOutput(); err == nil || !strings.Contains(string(out), "127.0.0.1:1") {
		t.Errorf("a reload with a server that does not exist: %v\n%s", err, out)
	}
	set(`["127.0.0.1:1"]`, hosts[1:]...)
	m.mustRun("reload")
	testutil.Must(t, zk.Kill(1))
	if a, by := l.one([]string{"common"}, ""); by != "one" {
		t.Errorf("after the reload a request was answered by %q with %+v", by, a)
	}
	if now := l.lockOf("one"); now != before {
		t.Errorf("the lock of the provider was %+v and is %+v", before, now)
	}
	for _, lost := range []string{"locks in ZooKeeper lost", "lock in ZooKeeper was removed"} {
		if strings.Contains(string(m.Log()), lost) {
			t.Errorf("the log has %q", lost)
		}
	}
	m.Stop()
}
