package watch_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
)

// slowCalls delays every call randomly before and after the cloud executes it, and records refused calls.
type slowCalls struct {
	mu      sync.Mutex // guards the fields below
	random  *rand.Rand
	refused []string
}

func (s *slowCalls) pause() {
	s.mu.Lock()
	pause := time.Duration(s.random.IntN(300)) * time.Millisecond
	s.mu.Unlock()
	time.Sleep(pause)
}

func (s *slowCalls) around(inner http.RoundTripper) http.RoundTripper {
	return testutil.RoundTripper(func(req *http.Request) (*http.Response, error) {
		s.pause()
		answer, err := inner.RoundTrip(req)
		if err == nil && req.Method == http.MethodPost && answer.StatusCode >= 400 {
			s.mu.Lock()
			s.refused = append(s.refused, fmt.Sprintf("%d %s", answer.StatusCode, req.URL.Path))
			s.mu.Unlock()
		}
		s.pause()
		return answer, err
	})
}

// TestNoCallExceedsTheQuota has more users than capacity, and listings at every moment of the creation and
// deletion of nodes.
func TestNoCallExceedsTheQuota(t *testing.T) {
	for _, quota := range []struct{ instances, addresses int64 }{{3, 2}, {2, 3}} {
		for _, seed := range testutil.Seeds(5) {
			t.Run(fmt.Sprintf("%d instances, %d addresses, seed %d", quota.instances, quota.addresses, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { rushAt(t, quota.instances, quota.addresses, seed) })
			})
		}
	}
}

func rushAt(t *testing.T, instances, addresses int64, seed uint64) {
	t.Helper()
	limits := emulator.DefaultQuota()
	limits.Instances, limits.FloatingIPs = instances, addresses
	config := strings.Replace(strings.Replace(fleet, "min_ready = 1", "min_ready = 0", 1), `flavor = "small"`, "flavor = \"small\"\n      auto_floating_ip = true", 1)
	l := newLab(t, strings.Replace(config, `image_format = "raw"`, "image_format = \"raw\"\n  rate = 0", 1),
		emulator.Options{BuildTime: 3 * time.Second, DeleteTime: 2 * time.Second, AddressTime: time.Second, Quota: &limits})
	calls := &slowCalls{random: rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // repeatable on purpose
	l.around, l.refresh = calls.around, time.Second
	d, end := l.daemon()
	defer end()
	var users sync.WaitGroup
	for range 5 {
		users.Go(func() {
			for range 6 {
				r, err := d.Clients.CreateRequest(t.Context(), watch.NewRequest{Labels: []string{"small"}})
				if err != nil {
					t.Error(err)
					return
				}
				if got := l.fulfilled(d, r.ID); got.State != resources.StateFulfilled {
					t.Errorf("request is %s: %s", got.State, got.Error)
					return
				}
				nodes, err := d.Clients.Take(t.Context(), r.ID, "me", 0)
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Second)
				if _, err := d.Clients.Return(t.Context(), nodes[0].ID); err != nil {
					t.Error(err)
				}
			}
		})
	}
	users.Wait()
	calls.mu.Lock()
	defer calls.mu.Unlock()
	if len(calls.refused) > 0 {
		t.Errorf("refused: %v", calls.refused)
	}
}
