package watch_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
)

func TestSuspendedDaemonStartsNothingAndResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fleet, emulator.Options{BuildTime: 5 * time.Second})
		d, end := l.daemon()
		defer end()
		testutil.Await(l.t, "a node is ready", func() bool {
			for _, n := range d.Last().Observed.Records.Nodes {
				if !n.Static && n.State == resources.StateReady {
					return true
				}
			}
			return false
		})
		r, err := d.Clients.CreateRequest(t.Context(), watch.NewRequest{Labels: []string{"small", "small"}})
		testutil.Must(t, err)
		testutil.Await(l.t, "the request's last node is on its way", func() bool { // min_ready may have launched one before
			return slices.ContainsFunc(d.Runner().Running(), func(s plan.Step) bool { return s.Kind == plan.KindLaunch && s.Request == r.ID })
		})
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var busy *watch.BusyError
		if _, err := d.Suspend(short); !errors.As(err, &busy) || len(busy.Steps) == 0 {
			t.Fatalf("parked in the middle of a launch: %v", err)
		}
		release, err := d.Suspend(t.Context()) // the running step completes first
		testutil.Must(t, err)
		if running := d.Runner().Running(); len(running) > 0 {
			t.Errorf("parked, and %v runs", running)
		}
		if _, err := d.Suspend(t.Context()); !errors.Is(err, watch.ErrSuspended) {
			t.Errorf("parked twice: %v", err)
		}
		if got, err := d.Clients.Request(r.ID); err != nil || got.State != resources.StateFulfilled {
			t.Errorf("after its last launch the request is %s: %v", got.State, err)
		}
		later := l.asks(d, watch.NewRequest{Labels: []string{"small"}})
		time.Sleep(5 * time.Minute)
		if got, err := d.Clients.Request(later); err != nil || got.State != resources.StateRequested {
			t.Errorf("while parked the request became %s: %v", got.State, err)
		}
		release()
		release() // a repeated call changes nothing
		if got := l.fulfilled(d, later); got.State != resources.StateFulfilled {
			t.Errorf("request is %s: %s", got.State, got.Error)
		}
		if release, err = d.Suspend(t.Context()); err != nil {
			t.Fatal(err)
		}
		release()
	})
}

func TestOnlyUnneededNodesAreDeletedWithoutForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fleet, emulator.Options{BuildTime: 5 * time.Second})
		d, end := l.daemon()
		defer end()
		r, err := d.Clients.CreateRequest(t.Context(), watch.NewRequest{Labels: []string{"small"}})
		testutil.Must(t, err)
		var launching string
		testutil.Await(l.t, "a node is being launched", func() bool {
			for _, n := range d.Last().Observed.Records.Nodes {
				if n.State == resources.StateBuilding {
					launching = n.ID
				}
			}
			return launching != ""
		})
		if _, err := d.Clients.DeleteNode(t.Context(), launching, "", true); !errors.Is(err, watch.ErrState) {
			t.Errorf("a node that is being launched was let go: %v", err)
		}
		got := l.fulfilled(d, r.ID)
		if _, err := d.Clients.DeleteNode(t.Context(), got.Nodes[0], "", false); !errors.Is(err, watch.ErrState) {
			t.Errorf("a node that is set aside was let go: %v", err)
		}
		nodes, err := d.Clients.Take(t.Context(), r.ID, "me", 0)
		testutil.Must(t, err)
		if _, err := d.Clients.Release(t.Context(), nodes[0].ID); !errors.Is(err, watch.ErrState) {
			t.Errorf("a node that is not held was released: %v", err)
		}
		if n, err := d.Clients.DeleteNode(t.Context(), nodes[0].ID, "broken", true); err != nil || n.State != resources.StateUsed || n.Comment != "broken" {
			t.Errorf("node is %+v: %v", n, err)
		}
		testutil.Await(l.t, "it is gone", func() bool {
			_, err := d.Clients.Node(nodes[0].ID)
			return err != nil
		})
	})
}
