package watch_test

import (
	"testing"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
)

// hall has a thousand static machines.
const hall = `
npctl { images_dir = "images" }
label "metal" {}
provider "static" "rack" {
  rate            = 0
  max_concurrency = 100
  pool "main" {
    node "metal" {
      for_each          = toset([for i in range(1000) : format("metal%04d", i)])
      name              = each.key
      labels            = ["metal"]
      host_key_checking = false
    }
  }
}
`

// A plan that was made from older records must not repeat a step that has completed since: a machine with two records
// is assigned twice.
func TestMachinesAreRegisteredOnce(t *testing.T) {
	l := newLab(t, hall, emulator.Options{}) // in real time, because the test is about concurrency
	d, end := l.daemon()
	defer end()
	ready := func() (n int, twice []string) {
		seen := map[string]bool{}
		for _, node := range d.Last().Observed.Records.Nodes {
			if seen[node.Hostname] {
				twice = append(twice, node.Hostname)
			}
			seen[node.Hostname] = true
		}
		return len(seen), twice
	}
	testutil.Await(l.t, "every machine is there", func() bool { n, _ := ready(); return n == 1000 })
	time.Sleep(100 * time.Millisecond) // for one or two more passes
	if _, twice := ready(); len(twice) > 0 {
		t.Errorf("%d machines have two records, %s for one", len(twice), twice[0])
	}
}
