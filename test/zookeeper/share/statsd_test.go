//go:build integration

package share

import (
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

// TestStatsdNamesAreThoseOfNodepool compares the gauges of npctl with those of a real nodepool-launcher on the same
// ZooKeeper.
func TestStatsdNamesAreThoseOfNodepool(t *testing.T) {
	t.Parallel()
	theirs, ours := listenUDP(t), listenUDP(t)
	host, port, err := net.SplitHostPort(theirs.LocalAddr().String())
	testutil.Must(t, err)
	zk := lab.Start(t, 1)
	z := newZuul(t, zk.Env)
	lab.StartLauncher(t, zk, lab.Nodepool{Driver: "static", Provider: "nodepool", Nodes: 2, Labels: []string{"theirs"},
		Env: []string{"STATSD_HOST=" + host, "STATSD_PORT=" + port}})
	m := newMachine(t, zk, "npctl", staticProvider("npctl", 2, 100, "ours"))
	m.options = []string{"-statsd=" + ours.LocalAddr().String()}
	m.start()
	defer m.Stop()
	testutil.Await(t, "both are registered", func() bool { names, _ := z.children(t.Context(), poolsRoot); return len(names) == 2 })

	// Nodepool sends its gauges when a node changes, once it has won an election that nothing shows.
	want, got := map[string]string{}, map[string]string{}
	testutil.Await(t, "both send the same gauges", func() bool {
		id, err := z.request(t.Context(), wanted{labels: []string{"ours"}})
		testutil.Must(t, err)
		_, err = z.wait(t.Context(), id)
		testutil.Must(t, err)
		testutil.Must(t, z.delete(t.Context(), requestsRoot+"/"+id))
		for range 50 {
			receive(t, theirs, want)
			receive(t, ours, got)
			if len(want) > 40 && maps.Equal(want, got) {
				return true
			}
		}
		return false
	}, func() string { return "gauges and values (-Nodepool +npctl):\n" + cmp.Diff(want, got) })
	t.Logf("%d equal gauges: %s", len(got), strings.Join(slices.Sorted(maps.Keys(got)), " "))
}

func listenUDP(t *testing.T) net.PacketConn {
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	testutil.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// without are gauges that only one of both has: of queues inside a nodepool-launcher, of its own providers, and of
// builders.
var without = regexp.MustCompile(`\.zk\.|\.max_servers$|image_build_requests$`)

// receive adds the gauges that arrive at once.
func receive(t *testing.T, from net.PacketConn, into map[string]string) {
	testutil.Must(t, from.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	buffer := make([]byte, 65536)
	for {
		n, _, err := from.ReadFrom(buffer)
		if err != nil {
			return // nothing more
		}
		for _, line := range strings.Split(string(buffer[:n]), "\n") {
			name, value, _ := strings.Cut(line, ":")
			if !without.MatchString(name) {
				into[name] = value
			}
		}
	}
}
