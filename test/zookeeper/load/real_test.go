//go:build integration

package load

import (
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

func TestLoadMeasuresNodepool(t *testing.T) {
	l := lab.Start(t, 1)
	launcher := lab.StartLauncher(t, l, lab.Nodepool{Driver: "static", Provider: "nodepool", Nodes: 30, Labels: []string{"small"}})
	zuul := lab.StartPeer(t, l.Env, lab.PeerOptions{})
	if _, err := zuul.AwaitPools(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	pid, err := launcher.PID()
	testutil.Must(t, err)
	got, err := Run(t.Context(), Connection{Hosts: l.Hosts, CA: l.CA, Cert: l.Cert, Key: l.Key}, Options{
		Labels: []string{"small", "small"}, Clients: 3, Warmup: 2 * time.Second, Time: 6 * time.Second, PID: pid, Plain: l.Plain,
	})
	testutil.Must(t, err)
	t.Logf("%+v", got)
	if len(got.Errors) > 0 || got.Failed > 0 || got.Shared > 0 {
		t.Errorf("errors %v, %d failed, %d shared", got.Errors, got.Failed, got.Shared)
	}
	if got.Requests == 0 || got.Latency.P50 == 0 || got.Gone.P50 == 0 || got.CPU == 0 || got.Memory == 0 || got.Packets <= got.Own || got.Own == 0 {
		t.Errorf("something was not measured: %+v", got)
	}
	if left, err := zuul.Children(t.Context(), "/nodepool/requests"); err != nil || len(left) > 0 {
		t.Errorf("requests left behind: %v, %v", left, err)
	}
}
