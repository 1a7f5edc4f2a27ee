package reconcile_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/internal/testutil"
)

// TestObjectsOfOthersAreListedForEachProvider: one provider cannot list the images of others. The listing of the other one
// has them, and both have everything else.
func TestObjectsOfOthersAreListedForEachProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, twoClouds, goldenCloud)
		for _, cloud := range l.driver.Clouds {
			_, err := cloud.AddServer(emulator.ForeignServer{Name: "precious"})
			testutil.Must(t, err)
		}
		e, end := l.engine()
		defer end()
		e.ListOthers = true
		var refused atomic.Bool
		e.WrapTransport = func(inner http.RoundTripper) http.RoundTripper {
			return testutil.RoundTripper(func(req *http.Request) (*http.Response, error) {
				q := req.URL.Query()
				ofOthers := strings.HasSuffix(req.URL.Path, "/v2/images") && q.Has("owner") && !q.Has("tag") && !q.Has("image_type")
				if ofOthers && !refused.Swap(true) {
					return &http.Response{StatusCode: http.StatusForbidden, Body: http.NoBody, Request: req}, nil
				}
				return inner.RoundTrip(req)
			})
		}
		seen, err := e.Observe(t.Context(), true)
		testutil.Must(t, err)
		failed, complete := 0, 0
		for name, view := range seen.Providers {
			switch {
			case view.Err != "" || len(view.Instances) == 0:
				t.Errorf("provider %s: %q, %d instances", name, view.Err, len(view.Instances))
			case view.OthersErr != "":
				failed++
			case len(view.Others) == 2:
				complete++
			}
		}
		if failed != 1 || complete != 1 {
			t.Errorf("%d providers failed and %d have the objects of others", failed, complete)
		}
		if found := inspect.Unmanaged(seen); len(found) != 3 {
			t.Errorf("unmanaged: %+v, want both servers and one image", found)
		}
	})
}
