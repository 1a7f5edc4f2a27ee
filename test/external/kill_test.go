//go:build integration

package external

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/external"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/kill"
)

// TestKilledAtEveryCommit kills an apply and a destroy before and after each commit. TestKilledAtEveryCall has the calls.
func TestKilledAtEveryCommit(t *testing.T) {
	p := newPlace(t, 1)
	configuration := filepath.Join(p.dir, "npctl.hcl")
	testutil.WriteFile(t, configuration, strings.Replace(testutil.ReadFile(t, configuration), "wrapper.sh", "driver.sh", 1))
	machines := filepath.Join(p.dir, "data/files/machines")
	testutil.Must(t, os.MkdirAll(machines, 0o700))
	theirs := filepath.Join(machines, "theirs.json")
	testutil.WriteFile(t, theirs, `{"id": "theirs", "status": "ready"}`+"\n")
	f := kill.Fleet{Dir: p.dir, Drivers: map[string]drivers.Driver{"external": external.New()}}
	f.Everywhere(t, map[string]int{"machine": 1}, func() map[string]int {
		files, err := filepath.Glob(filepath.Join(machines, "*_node_*.json"))
		testutil.Must(t, err)
		if len(files) == 0 {
			return map[string]int{}
		}
		return map[string]int{"machine": len(files)}
	})
	if _, err := os.Stat(theirs); err != nil {
		t.Error(err)
	}
}
