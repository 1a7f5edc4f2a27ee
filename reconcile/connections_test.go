package reconcile

import (
	"testing"

	"github.com/npctl/npctl/drivers"
)

// TestPollerOfAClosedProviderIsRemoved: each connection has one poller, which all waiting steps share.
func TestPollerOfAClosedProviderIsRemoved(t *testing.T) {
	e := New(Options{Store: newShared(t)})
	shared, err := newRun(t.Context(), e.Store)
	if err != nil {
		t.Fatal(err)
	}
	defer shared.pollers.end()
	of := func(c *idle) { shared.pollers.of(c, e.connections, "") }
	clouds := []*idle{{name: "old"}, {name: "new"}}
	for _, c := range clouds {
		open, _ := e.connections.acquire(cloudKey{name: c.name})
		open.cloud = c
		open.ready.Store(true)
		of(c)
	}
	delete(e.connections.clouds, cloudKey{name: "old"})
	of(&idle{name: "newest"})
	if _, kept := shared.pollers.byCloud[clouds[0]]; kept || shared.pollers.byCloud[clouds[1]] == nil {
		t.Errorf("of a closed and an open connection, those are kept: %v", shared.pollers.byCloud)
	}
}

// idle is a cloud that receives no calls.
type idle struct {
	drivers.Cloud
	name string
}
