package reconcile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// The location of a driver with files is their path, which a rename of the provider must not change.
func TestRenamedProviderHasTheSameDirectory(t *testing.T) {
	e := New(Options{Store: newShared(t), DataDir: t.TempDir(), Desired: resources.Desired{}})
	want := filepath.Join(e.DataDir, "first")
	testutil.Must(t, os.Mkdir(want, 0o700))
	for _, move := range [][2]string{{"first", "second"}, {"second", "third"}} {
		testutil.Must(t, e.moveDirectory(move[0], move[1]))
		if got, err := e.directory(t.Context(), move[1]); err != nil || got != want {
			t.Errorf("the directory of %s is %s, %v; want %s", move[1], got, err, want)
		}
	}
	testutil.Must(t, os.Symlink("/elsewhere", filepath.Join(e.DataDir, "other")))
	if got, err := e.directory(t.Context(), "other"); err != nil || got != filepath.Join(e.DataDir, "other") {
		t.Errorf("the directory behind another link is %s, %v", got, err)
	}
}

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
