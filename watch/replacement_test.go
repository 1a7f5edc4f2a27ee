package watch_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch"
)

// TestReplacedNodesStayUntilTheirSuccessorsAreReady: the pool has capacity for all successors. The passes during their launches do not
// delete the old nodes.
func TestReplacedNodesStayUntilTheirSuccessorsAreReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := strings.NewReplacer("min_ready = 1", "min_ready = 3", "max_servers       = 5", "max_servers = 6").Replace(fleet)
		l := newLab(t, config, emulator.Options{BuildTime: time.Minute, DeleteTime: 5 * time.Second})
		var changed atomic.Bool
		var mu sync.Mutex // guards least
		least := 3
		d, end := l.daemonWith(&life{told: func([]state.Op) {
			if changed.Load() {
				mu.Lock()
				defer mu.Unlock()
				least = min(least, len(l.stock(t, "small")))
			}
		}})
		defer end(true)
		testutil.Await(t, "three nodes are ready", func() bool { return len(l.stock(t, "small")) == 3 })
		before := l.stock(t, "small")
		changed.Store(true)
		l.write(strings.Replace(config, `flavor = "small"`, `flavor = "large"`, 1))
		if _, err := d.Reload(t.Context(), watch.ReloadOptions{}); err != nil {
			t.Fatal(err)
		}
		testutil.Await(t, "only the successors are left", func() bool {
			now := l.stock(t, "small")
			for id := range now {
				if before[id] {
					return false
				}
			}
			return len(now) == 3
		})
		mu.Lock()
		defer mu.Unlock()
		if least < 3 {
			t.Errorf("only %d nodes were ready at a moment", least)
		}
	})
}

// stock returns the IDs of the ready nodes of a label on record.
func (l *lab) stock(t *testing.T, label string) map[string]bool {
	t.Helper()
	entries, err := l.store.List(context.Background(), resources.KindNode)
	testutil.Must(t, err)
	ids := map[string]bool{}
	for _, entry := range entries {
		if n := entry.Record.(*resources.Node); n.State == resources.StateReady && n.Labels[0] == label {
			ids[n.ID] = true
		}
	}
	return ids
}
