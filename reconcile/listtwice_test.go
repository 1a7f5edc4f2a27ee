package reconcile_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// forgetful is a cloud that returns empty listings of one kind in a range of calls.
type forgetful struct {
	path, query, empty string
	lists              int
	emptyFrom, emptyTo int // from 1
}

func (f *forgetful) transport(inner http.RoundTripper) http.RoundTripper {
	return testutil.RoundTripper(func(req *http.Request) (*http.Response, error) {
		answer, err := inner.RoundTrip(req)
		if err != nil || req.Method != http.MethodGet || !strings.HasSuffix(req.URL.Path, f.path) ||
			!strings.Contains(req.URL.RawQuery, f.query) {
			return answer, err
		}
		if f.lists++; f.lists >= f.emptyFrom && f.lists <= f.emptyTo {
			_ = answer.Body.Close()
			answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader([]byte(f.empty))), int64(len(f.empty))
			answer.Header.Del("Content-Length")
		}
		return answer, nil
	})
}

// oneCloud is twoClouds with only the first cloud.
func oneCloud() string {
	cut := strings.Index(twoClouds, `provider "lab" "two"`)
	return strings.Replace(twoClouds[:cut], `label "large" { min_ready = 1 }`, ``, 1)
}

func TestObjectMissingInOneListingIsNotLost(t *testing.T) {
	for name, f := range map[string]forgetful{
		"servers, the first time":  {path: "/servers/detail", empty: `{"servers":[]}`, emptyFrom: 1, emptyTo: 1},
		"servers, the second time": {path: "/servers/detail", empty: `{"servers":[]}`, emptyFrom: 2, emptyTo: 2},
		"images":                   {path: "/images", query: "tag=", empty: `{"images":[]}`, emptyFrom: 1, emptyTo: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, oneCloud(), emulator.Options{})
				l.mustRun(t, plan.Options{})
				time.Sleep(time.Minute) // simulated
				before := f
				if p := planWith(t, l, &before); len(p.Steps) > 0 {
					t.Errorf("%d listings, of which one was empty:\n%s", before.lists, text(p))
				}
			})
		})
	}
}

func TestObjectMissingInTwoListingsIsLost(t *testing.T) {
	for name, test := range map[string]struct {
		forgetful
		want string
	}{
		"servers": {forgetful{path: "/servers/detail", empty: `{"servers":[]}`, emptyFrom: 1, emptyTo: 2}, "forget node."},
		"images":  {forgetful{path: "/images", query: "tag=", empty: `{"images":[]}`, emptyFrom: 1, emptyTo: 2}, "forget provider.one.image.debian: lost"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, oneCloud(), emulator.Options{})
				l.mustRun(t, plan.Options{})
				time.Sleep(time.Minute) // simulated
				began := time.Now()
				if p := planWith(t, l, &test.forgetful); test.lists != 2 || !strings.Contains(text(p), test.want) {
					t.Errorf("after %d listings, of which two were empty:\n%s", test.lists, text(p))
				}
				if took := time.Since(began); took < 3*time.Second {
					t.Errorf("both listings were within %s", took)
				}
			})
		})
	}
}

// planWith computes a plan with a forgetful cloud.
func planWith(t *testing.T, l *lab, f *forgetful) plan.Plan {
	t.Helper()
	e, end := l.engine()
	defer end()
	e.WrapTransport = f.transport
	seen, err := e.Observe(t.Context(), true)
	testutil.Must(t, err)
	return plan.Compute(e.Desired, seen, plan.Options{})
}

// TestAStartingServerThatOneListingLacksIsWaitedFor: the launch needs one attempt.
func TestAStartingServerThatOneListingLacksIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, oneCloud(), emulator.Options{BuildTime: 20 * time.Second})
		e, end := l.engine()
		defer end()
		f := &forgetful{path: "/servers/detail", empty: `{"servers":[]}`, emptyFrom: 4, emptyTo: 4}
		e.WrapTransport = f.transport
		seen, err := e.Observe(t.Context(), true)
		testutil.Must(t, err)
		result, err := e.Execute(t.Context(), plan.Compute(e.Desired, seen, plan.Options{}), plan.Options{}, seen)
		if err != nil || result.Err() != nil {
			t.Fatal(err, result.Err())
		}
		end()
		if f.lists <= f.emptyTo {
			t.Fatalf("there were only %d listings", f.lists)
		}
		for _, n := range l.nodes() {
			if n.Attempt != 1 || n.State != resources.StateReady {
				t.Errorf("node %s is %s after %d attempts", n.ID, n.State, n.Attempt)
			}
		}
	})
}
