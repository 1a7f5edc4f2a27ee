package reconcile_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/openstack"
	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
)

// lagging is a cloud whose next listings show no instance.
type lagging struct {
	*openstack.Cloud
	hidden *atomic.Int64 // number of these listings
}

func (l *lagging) List(ctx context.Context) ([]resources.Instance, error) {
	if l.hidden.Add(-1) >= 0 {
		return nil, nil
	}
	return l.Cloud.List(ctx)
}

// TestNewServerOfARecordWithoutAHashIsDeleted completes the deletion of nodes whose records another program has written without
// npctl's keys, while the listings of the plan do not show their servers, which have npctl's ownership tags.
func TestNewServerOfARecordWithoutAHashIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, twoClouds, emulator.Options{})
		var hidden atomic.Int64
		l.driver.wrap = func(inner *openstack.Cloud) drivers.Cloud { return &lagging{inner, &hidden} }
		l.mustRun(t, plan.Options{})
		if n := len(l.servers(t)); n != 2 {
			t.Fatalf("there are %d servers, want 2", n)
		}
		store, err := bolt.Open(bolt.Options{Path: filepath.Join(l.dir, "npctl.db")})
		testutil.Must(t, err)
		nodes, err := store.List(t.Context(), resources.KindNode)
		testutil.Must(t, err)
		for _, n := range nodes {
			node := n.Record.(*resources.Node)
			node.Hash, node.State = "", resources.StateDeleting
			_, err := store.Commit(t.Context(), state.Op{Record: n.Record, Revision: n.Revision})
			testutil.Must(t, err)
		}
		testutil.Must(t, store.Close())
		hidden.Store(6) // those of the plan and the first of the deletion
		_, _, err = l.run(t.Context(), plan.Options{Destroy: true})
		testutil.Must(t, err)
		time.Sleep(time.Minute) // the listings did not show whether the servers are gone
		if left := l.servers(t); len(left) > 0 {
			t.Errorf("servers %v are left", left)
		}
	})
}
