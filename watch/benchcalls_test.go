package watch_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
)

// tally counts calls by purpose.
type tally struct {
	mu     sync.Mutex // guards counts
	counts map[string]int
}

var (
	anID    = regexp.MustCompile(`/[0-9a-f]{8}-?[0-9a-f-]{20,}`)
	version = regexp.MustCompile(`^.*?/v[0-9.]+/`)
)

func (c *tally) wrap(inner http.RoundTripper) http.RoundTripper {
	return testutil.RoundTripper(func(r *http.Request) (*http.Response, error) {
		c.mu.Lock()
		c.counts[r.Method+" "+version.ReplaceAllString(anID.ReplaceAllString(r.URL.Path, "/ID"), "")]++
		c.mu.Unlock()
		return inner.RoundTrip(r)
	})
}

func (c *tally) take() (total int, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines []string
	for what, n := range c.counts {
		total += n
		lines = append(lines, fmt.Sprintf("%6d %s", n, what))
	}
	slices.Sort(lines)
	slices.Reverse(lines)
	c.counts = map[string]int{}
	return total, strings.Join(lines, "\n")
}

// BenchmarkCallsPerNode counts the HTTP requests that an OpenStack receives during the life of a node, from the request
// to its deletion, with different numbers of concurrent nodes. Servers take a second to start.
func BenchmarkCallsPerNode(b *testing.B) {
	for _, at := range []int{1, 20} {
		b.Run(fmt.Sprintf("at a time=%d", at), func(b *testing.B) {
			// without a rate limit, which would account for most of the time
			unhurried := strings.NewReplacer("max_servers       = 5", "max_servers = 50", "min_ready = 1", "", "image_format = \"raw\"", "image_format = \"raw\"\n  rate = 0").Replace(fleet)
			l := newLab(b, unhurried,
				emulator.Options{BuildTime: time.Second, DeleteTime: 200 * time.Millisecond})
			calls := &tally{counts: map[string]int{}}
			d, _, end := l.overheard(0, calls.wrap)
			defer end()
			l.live(d) // the image exists after that
			calls.take()
			began := time.Now()
			for b.Loop() {
				var all sync.WaitGroup
				for range at {
					all.Go(func() { l.live(d) })
				}
				all.Wait()
				testutil.Await(l.t, "every node is gone", func() bool { return launched(d) == 0 })
			}
			total, text := calls.take()
			b.ReportMetric(float64(total)/float64(b.N*at), "calls/node")
			b.ReportMetric(time.Since(began).Seconds()/float64(b.N), "s/round")
			b.Logf("%d rounds:\n%s", b.N, text)
		})
	}
}

func launched(d *watch.Daemon) (n int) {
	for _, node := range d.Last().Observed.Records.Nodes {
		if !node.Static {
			n++
		}
	}
	return n
}

// live requests a node, takes it and returns it.
func (l *lab) live(d *watch.Daemon) {
	r, err := d.Clients.CreateRequest(l.t.Context(), watch.NewRequest{Labels: []string{"small"}})
	if err != nil {
		l.t.Error(err)
		return
	}
	if r = l.fulfilled(d, r.ID); r.State != resources.StateFulfilled {
		l.t.Errorf("request is %s: %s", r.State, r.Error)
		return
	}
	nodes, err := d.Clients.Take(l.t.Context(), r.ID, "me", 0)
	if err != nil {
		l.t.Error(err)
		return
	}
	if _, err := d.Clients.Return(l.t.Context(), nodes[0].ID); err != nil {
		l.t.Error(err)
	}
}
