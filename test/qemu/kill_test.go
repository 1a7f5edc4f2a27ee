//go:build integration

package qemu

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/qemu"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/kill"
)

// TestKilledAtEveryCommit kills an apply and a destroy of one machine before and after each commit.
// TestKilledBeforeAndAfterEachProgram has the calls.
func TestKilledAtEveryCommit(t *testing.T) {
	p := newPlace(t, strings.Replace(quick(t, ""), "min_ready = 2", "min_ready = 1", 1))
	f := kill.Fleet{Dir: p.dir, Drivers: map[string]drivers.Driver{"qemu": qemu.New()}}
	f.Everywhere(t, map[string]int{"process": 1, "directory": 1}, func() map[string]int {
		found := map[string]int{}
		if n := len(p.processes()); n > 0 {
			found["process"] = n
		}
		machines, err := filepath.Glob(p.path("data", "*", "machines", "*"))
		testutil.Must(t, err)
		if n := len(machines); n > 0 {
			found["directory"] = n
		}
		return found
	})
}
