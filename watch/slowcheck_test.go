package watch_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/drivers/static"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
)

// slowDriver is the static driver over machines that respond after a while, or not at all.
type slowDriver struct {
	drivers.Driver
	takes *atomic.Int64 // nanoseconds
}

func (d slowDriver) Open(ctx context.Context, env drivers.Env, config cty.Value) (drivers.Cloud, error) {
	cloud, err := d.Driver.Open(ctx, env, config)
	return slowCloud{cloud, d.takes}, err
}

type slowCloud struct {
	drivers.Cloud
	takes *atomic.Int64
}

func (c slowCloud) Check(ctx context.Context, _ resources.StaticNode) ([]string, error) {
	select {
	case <-time.After(time.Duration(c.takes.Load())):
		return []string{"ssh-ed25519 AAAA"}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

const twoMachines = `
npctl {
  images_dir = "images"
  tenant_limit "acme" { max_servers = 1 }
}
label "metal" {}
provider "static" "rack" {
  pool "main" {
    node "metal1" { labels = ["metal"] }
    node "metal2" { labels = ["metal"] }
  }
}
`

// readyMachines starts a daemon with two machines that became ready some time ago.
func readyMachines(t *testing.T) (l *lab, d *watch.Daemon, takes *atomic.Int64) {
	l = newLab(t, twoMachines, emulator.Options{})
	takes = &atomic.Int64{}
	l.static = slowDriver{static.New(), takes}
	d, end := l.daemon()
	t.Cleanup(end)
	testutil.Await(l.t, "both are ready", func() bool {
		ready := 0
		for _, n := range d.Last().Observed.Records.Nodes {
			if n.State == resources.StateReady {
				ready++
			}
		}
		return ready == 2
	})
	time.Sleep(time.Minute)
	return l, d, takes
}

// acme requests one of these machines.
var acme = watch.NewRequest{Labels: []string{"metal"}, Tenant: "acme"}

// TestRunningServeStepsCountForTheirTenant: while the daemon checks whether the machine of one request still responds,
// another request of its tenant arrives.
func TestRunningServeStepsCountForTheirTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, d, takes := readyMachines(t)
		takes.Store(int64(3 * time.Second))
		first := l.asks(d, acme)
		time.Sleep(time.Second)
		second := l.asks(d, acme)
		if r := l.fulfilled(d, first); r.State != resources.StateFulfilled {
			t.Fatalf("the first request is %s: %s", r.State, r.Error)
		}
		time.Sleep(10 * time.Second)
		if r, err := d.Clients.Request(second); err != nil || r.State != resources.StateRequested {
			t.Errorf("the second request is %v, %v; the tenant may have one machine", r, err)
		}
	})
}

// TestHangingMachineIsExcluded: the machine answers no check.
func TestHangingMachineIsExcluded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, d, takes := readyMachines(t)
		takes.Store(int64(time.Hour))
		id := l.asks(d, acme)
		time.Sleep(30 * time.Second)
		for _, n := range d.Last().Observed.Records.Nodes {
			if n.State != resources.StateFailed || !strings.Contains(n.Error, "deadline") {
				t.Errorf("node %s is %s: %s", n.ID, n.State, n.Error)
			}
		}
		if r, err := d.Clients.Request(id); err != nil || r.State != resources.StateRequested {
			t.Errorf("the request is %v, %v", r, err)
		}
	})
}
