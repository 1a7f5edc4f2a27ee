package reconcile

import (
	"testing"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/plan"
)

// TestPollerOfAClosedProviderIsRemoved: each connection has one poller, which all waiting steps share.
func TestPollerOfAClosedProviderIsRemoved(t *testing.T) {
	e := New(Options{Store: newShared(t)})
	shared, err := newRun(t.Context(), e.Store)
	if err != nil {
		t.Fatal(err)
	}
	defer shared.end()
	x := e.execution(shared, plan.Observed{})
	clouds := []*idle{{name: "old"}, {name: "new"}}
	for _, c := range clouds {
		open, _ := e.connections.acquire(cloudKey{name: c.name})
		open.cloud = c
		open.ready.Store(true)
		x.poll(c)
	}
	delete(e.connections.clouds, cloudKey{name: "old"})
	x.poll(&idle{name: "newest"})
	if _, kept := x.polls[clouds[0]]; kept || x.polls[clouds[1]] == nil {
		t.Errorf("of a closed and an open connection, those are kept: %v", x.polls)
	}
}

// idle is a cloud that receives no calls.
type idle struct {
	drivers.Cloud
	name string
}
