//go:build integration

package zookeeper_test

import (
	"strings"
	"testing"

	"github.com/npctl/npctl/resources"
)

// A pool that was full for a moment stayed registered as paused: what was to be written was compared with what the cache
// knew, which was older than what had been written last.
func TestRegistrationSaysWhatWasRegisteredLast(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	s := tr.open(t)
	pool := resources.Peer{Provider: "cloud", Pool: "main", Labels: []string{"debian"}}
	must(t, s.Register(t.Context(), []resources.Peer{pool}))
	at := "/nodepool/components/pool/" + tr.children(t, "/nodepool/components/pool")[0]
	for i := range 100 {
		for _, paused := range []bool{true, false} {
			pool.Paused = paused
			must(t, s.Register(t.Context(), []resources.Peer{pool}))
		}
		if data := tr.data(t, at); !strings.Contains(data, `"paused":false`) {
			t.Fatalf("after %d times: %s", i+1, data)
		}
	}
}
