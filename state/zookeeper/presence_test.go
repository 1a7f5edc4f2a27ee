//go:build integration

package zookeeper_test

import (
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// A pool that was full for a moment stayed registered as paused: the wanted content was compared with the cache, which
// was older than the last write.
func TestRegistrationHasTheNewestPresence(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	s := tr.open(t)
	pool := resources.RegisteredPool{Provider: "cloud", Pool: "main", Labels: []string{"debian"}}
	testutil.Must(t, s.Register(t.Context(), resources.Presence{Pools: []resources.RegisteredPool{pool}}))
	at := "/nodepool/components/pool/" + tr.children(t, "/nodepool/components/pool")[0]
	for i := range 100 {
		for _, paused := range []bool{true, false} {
			pool.Paused = paused
			testutil.Must(t, s.Register(t.Context(), resources.Presence{Pools: []resources.RegisteredPool{pool}}))
		}
		if data := tr.data(t, at); !strings.Contains(data, `"paused":false`) {
			t.Fatalf("after %d times: %s", i+1, data)
		}
	}
}

func TestBuildersAreRegistered(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	s := tr.open(t)
	const dir, id = "/nodepool/components/builder", "3f1c6a52-6c37-4a3e-9f63-0c2cf5b9a0f4"
	testutil.Must(t, s.Register(t.Context(), resources.Presence{Builder: id}))
	names := tr.children(t, dir)
	if len(names) != 1 || !strings.HasPrefix(names[0], "launch1.example") {
		t.Fatalf("builders are %q", names)
	}
	want := `{"hostname":"launch1.example","id":"` + id + `","kind":"builder","model_api":0,"state":"running","version":"npctl 0.1.0"}`
	if data := tr.data(t, dir+"/"+names[0]); data != want {
		t.Errorf("it is %s, want %s", data, want)
	}
	testutil.Must(t, s.Register(t.Context(), resources.Presence{}))
	if names := tr.children(t, dir); len(names) != 0 {
		t.Errorf("builders are %q after it makes no images any more", names)
	}
}
