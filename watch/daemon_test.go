package watch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
)

func TestRequestsAreServedUsedAndRefilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fleet, emulator.Options{BuildTime: 5 * time.Second, DeleteTime: time.Second})
		d, end := l.daemon()
		defer end()
		r, err := d.Clients.CreateRequest(t.Context(), watch.NewRequest{Labels: []string{"small", "small"}, Requestor: "me"})
		testutil.Must(t, err)
		got := l.fulfilled(d, r.ID)
		if got.State != resources.StateFulfilled || len(got.Nodes) != 2 {
			t.Fatalf("request is %s with nodes %v: %s", got.State, got.Nodes, got.Error)
		}
		nodes, err := d.Clients.Take(t.Context(), r.ID, "me", 0)
		testutil.Must(t, err)
		for _, n := range nodes {
			if n.State != resources.StateInUse || n.Addresses.Interface == "" {
				t.Errorf("node is %+v", n)
			}
			if _, err := d.Clients.Return(t.Context(), n.ID); err != nil {
				t.Error(err)
			}
		}
		testutil.Await(l.t, "used nodes are gone and one is ready", func() bool {
			ready, others := 0, 0
			for _, n := range d.Last().Observed.Records.Nodes {
				switch {
				case n.Static:
				case n.State == resources.StateReady && n.Request == "":
					ready++
				default:
					others++
				}
			}
			return ready == 1 && others == 0
		})
	})
}

func TestStaticNodesAreGivenAndReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fleet, emulator.Options{})
		d, end := l.daemon()
		defer end()
		for range 5 {
			r, err := d.Clients.CreateRequest(t.Context(), watch.NewRequest{Labels: []string{"metal", "metal"}})
			testutil.Must(t, err)
			if got := l.fulfilled(d, r.ID); got.State != resources.StateFulfilled {
				t.Fatalf("request is %s: %s", got.State, got.Error)
			}
			nodes, err := d.Clients.Take(t.Context(), r.ID, "me", time.Minute)
			testutil.Must(t, err)
			for _, n := range nodes {
				if _, err := d.Clients.Return(t.Context(), n.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

func TestStaticNodesAreFreeAfterTheirRequestIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fleet, emulator.Options{})
		d, end := l.daemon()
		defer end()
		for range 3 {
			r, err := d.Clients.CreateRequest(t.Context(), watch.NewRequest{Labels: []string{"metal", "metal"}})
			testutil.Must(t, err)
			if got := l.fulfilled(d, r.ID); got.State != resources.StateFulfilled {
				t.Fatalf("request is %s: %s", got.State, got.Error)
			}
			testutil.Must(t, d.Clients.CancelRequest(t.Context(), r.ID))
		}
	})
}

func TestImpossibleRequestsFailWithReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fleet, emulator.Options{})
		d, end := l.daemon()
		defer end()
		r, err := d.Clients.CreateRequest(t.Context(), watch.NewRequest{Labels: []string{"large"}})
		testutil.Must(t, err)
		if got := l.fulfilled(d, r.ID); got.State != resources.StateFailed || got.Error == "" {
			t.Errorf("request is %+v", got)
		}
	})
}

func TestUnrenewedLeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fleet, emulator.Options{})
		d, end := l.daemon()
		defer end()
		r, err := d.Clients.CreateRequest(t.Context(), watch.NewRequest{Labels: []string{"metal"}})
		testutil.Must(t, err)
		l.fulfilled(d, r.ID)
		nodes, err := d.Clients.Take(t.Context(), r.ID, "me", 20*time.Second)
		testutil.Must(t, err)
		for range 5 {
			time.Sleep(15 * time.Second)
			if _, err := d.Clients.Renew(t.Context(), nodes[0].ID, "me"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := d.Clients.Renew(t.Context(), nodes[0].ID, "you"); err == nil {
			t.Error("somebody else renewed the lease")
		}
		testutil.Await(l.t, "the node is ready again", func() bool {
			n, err := d.Clients.Node(nodes[0].ID)
			return err == nil && n.State == resources.StateReady
		})
	})
}
