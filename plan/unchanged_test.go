package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUnchangedCountsExistingObjects(t *testing.T) {
	if got := Compute(fleet(), empty(), Options{}).Unchanged.Addresses(); len(got) > 0 {
		t.Errorf("before anything exists, %v is unchanged", got)
	}
	want := []Address{"diskimage.debian", "node.0000000001", "node.0000000002", "provider.cloud.image.debian", "provider.lab.pool.main.node.metal"}
	p := Compute(fleet(), settled(), Options{})
	if diff := cmp.Diff(want, p.Unchanged.Addresses()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	small := fleet()
	small.Providers[0].Pools[0].MaxServers = ptr(1) // one of two idle nodes goes
	if got := Compute(small, settled(), Options{}).Unchanged.Addresses(); len(got) != len(want)-1 {
		t.Errorf("%v is unchanged, want all but a node", got)
	}
}
