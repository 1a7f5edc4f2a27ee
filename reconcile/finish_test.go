package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/openstack"
	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
)

// finishing is a cloud whose deleted instances leave an object.
type finishing struct {
	*openstack.Cloud
	*finished
}

type finished struct {
	fails int // number of calls that fail for each instance

	mu    sync.Mutex
	calls map[string]int // guarded by mu; by instance
}

func (f *finishing) FinishDeletion(ctx context.Context, id string) error {
	list, err := f.List(ctx)
	if err != nil {
		return err
	}
	for _, i := range list {
		if i.ID == id {
			return errors.New("the instance is still there")
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[id]++
	if f.calls[id] <= f.fails {
		return fmt.Errorf("%w: in use", drivers.ErrRejected)
	}
	return nil
}

func TestDeletionDeletesWhatTheInstanceLeaves(t *testing.T) {
	for name, c := range map[string]struct{ fails, want int }{
		"at once":                      {0, 1},
		"repeated after an error":      {2, 3},
		"some attempts, then it leaks": {100, 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, twoClouds, emulator.Options{})
				cloud := &finished{fails: c.fails, calls: map[string]int{}}
				l.driver.wrap = func(inner *openstack.Cloud) drivers.Cloud { return &finishing{inner, cloud} }
				l.mustRun(t, plan.Options{})
				var ids []string
				for _, n := range l.nodes() {
					ids = append(ids, n.ExternalID)
				}
				if len(cloud.calls) > 0 {
					t.Errorf("without a deletion the calls are %v", cloud.calls)
				}
				_, _, err := l.run(t.Context(), plan.Options{Destroy: true})
				testutil.Must(t, err)
				for _, id := range ids {
					if cloud.calls[id] != c.want {
						t.Errorf("%d calls for instance %s, want %d", cloud.calls[id], id, c.want)
					}
				}
				if nodes := l.nodes(); len(nodes) > 0 || len(ids) == 0 || slices.Contains(ids, "") {
					t.Errorf("nodes %v are on record after the deletion of %q", nodes, ids)
				}
			})
		})
	}
}
