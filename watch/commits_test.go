package watch_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch"
)

// The requestor waits for each of these commits. With a state in ZooKeeper, each is a round trip of its servers.
func TestRequestTakesFewCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, strings.NewReplacer("min_ready = 1", "", "max_servers       = 5", "max_servers = 20").Replace(fleet), emulator.Options{BuildTime: 5 * time.Second})
		var mu sync.Mutex // guards commits
		var commits []string
		d, stop := l.daemonWith(&life{told: func(ops []state.Op) {
			var changes []string
			for _, op := range ops {
				switch r := op.Record.(type) {
				case *resources.Request:
					changes = append(changes, "request "+string(r.State))
				case *resources.Node:
					changes = append(changes, fmt.Sprintf("node %s %t", r.State, r.ExternalID != ""))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if len(changes) > 0 {
				commits = append(commits, strings.Join(changes, ", "))
			}
		}})
		defer stop(true)
		l.live(d) // the image exists after that
		node := []string{"node building false", "node building false", "node building true"}
		for _, c := range []struct {
			labels []string
			want   []string
		}{
			{[]string{"small"}, slices.Concat([]string{"request requested", "request pending"}, node, []string{"node ready true, request fulfilled"})},
			{[]string{"small", "small"}, slices.Concat([]string{"request requested", "request pending"}, node, node, []string{"node ready true", "node ready true, request fulfilled"})},
		} {
			testutil.Await(t, "the nodes are gone", func() bool { return launched(d) == 0 })
			mu.Lock()
			commits = nil
			mu.Unlock()
			r := l.fulfilled(d, l.asks(d, watch.NewRequest{Labels: c.labels}))
			mu.Lock()
			slices.Sort(commits) // the launches run at the same time
			slices.Sort(c.want)
			if diff := cmp.Diff(c.want, commits); diff != "" {
				t.Errorf("commits for %v differ:\n%s", c.labels, diff)
			}
			mu.Unlock()
			if len(r.Nodes) != len(c.labels) || r.Ready.IsZero() {
				t.Errorf("request: %+v", r)
			}
			var events []string
			for _, e := range d.Journal.Since(0, r.Key().String()) {
				events = append(events, e.Code)
			}
			if n := strings.Count(strings.Join(events, " "), "serve-done"); n != 2 {
				t.Errorf("%d events of serving: %v; want one when it is accepted, and one when it is fulfilled", n, events)
			}
			nodes, err := d.Clients.Take(t.Context(), r.ID, "me", 0)
			testutil.Must(t, err)
			for _, n := range nodes {
				_, err := d.Clients.Return(t.Context(), n.ID)
				testutil.Must(t, err)
			}
		}
	})
}
