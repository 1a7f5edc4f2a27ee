//go:build integration

package share

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

// TestDaemonsUseRestoredData replaces the data of a ZooKeeper by an older copy, and then by none, while two npctl watch use it.
// They serve requests with the data that they find, say what they found, and keep the servers that have no record any more.
func TestDaemonsUseRestoredData(t *testing.T) {
	t.Parallel()
	zk := lab.Start(t, 1)
	c := newCloud(t, "one", quick)
	configuration := strings.Replace(openstackProvider("one", 20, 100, "common"), `"common" {}`, `"common" { min_ready = 1 }`, 1)
	a, b := newMachine(t, zk, "A", configuration, c).start(), newMachine(t, zk, "B", configuration, c).start()
	a.mustRun("node", "delete", a.awaitReadyNode("")) // so that the ID of the next one is not zero
	a.awaitReadyNode("0000000000")

	data, backup := filepath.Join(zk.Dir, "server-1", "data", "version-2"), filepath.Join(t.TempDir(), "version-2")
	a.Stop()
	b.Stop() // the copy does not have the sessions of the next processes
	testutil.Must(t, zk.Kill())
	testutil.Must(t, os.CopyFS(backup, os.DirFS(data)))
	testutil.Must(t, zk.Up())
	a.start()
	b.start()
	a.request("common")
	a.request("common")
	var kept map[string]string
	testutil.Await(t, "two nodes are assigned and another one is ready", func() bool {
		kept = c.servers()
		return len(kept) == 3
	})
	for _, replaced := range []struct {
		what    string
		prepare func() error
		says    string
	}{
		{"restored", func() error { return os.CopyFS(data, os.DirFS(backup)) }, "is older than the data that npctl has seen"},
		{"lost", func() error { return nil }, "no state of npctl any more"},
	} {
		older, said := a.Logged("the state is older than the clouds")+b.Logged("the state is older than the clouds"), a.Logged(replaced.says)+b.Logged(replaced.says)
		testutil.Must(t, zk.Kill())
		testutil.Must(t, os.RemoveAll(data))
		testutil.Must(t, replaced.prepare())
		testutil.Must(t, zk.Up())
		testutil.Await(t, "a process says that the state was "+replaced.what, func() bool { return a.Logged(replaced.says)+b.Logged(replaced.says) > said })
		for _, m := range []*machine{a, b} {
			m.request("common")
		}
		testutil.Await(t, "a process says that the state is older than the cloud", func() bool {
			return a.Logged("the state is older than the clouds")+b.Logged("the state is older than the clouds") > older
		})
		time.Sleep(6 * time.Second) // several passes, and three times leak_age
		now := c.servers()
		for id, node := range kept {
			if _, is := now[id]; !is {
				t.Errorf("the state was %s: server %s of node %s was deleted", replaced.what, id, node)
			}
		}
		kept = now
	}
	a.Stop()
	b.Stop()
}

// request requests a node of a label and waits until it is assigned. The connection to ZooKeeper may be interrupted.
func (m *machine) request(label string) {
	m.t.Helper()
	var r wire.Request
	var err error
	testutil.Await(m.t, m.name+" accepts a request", func() bool {
		r, err = m.CreateRequest(m.t.Context(), wire.NewRequest{Labels: []string{label}})
		return err == nil
	}, func() string { return err.Error() })
	id := r.ID
	testutil.Await(m.t, m.name+" answers the request", func() bool {
		r, err = m.WaitRequest(m.t.Context(), id)
		return err == nil && r.State == resources.StateFulfilled
	}, func() string { return fmt.Sprintf("it is %s, %v", r.State, err) })
}
