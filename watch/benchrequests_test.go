package watch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources"
)

// machines returns a configuration with n static machines that npctl does not check.
func machines(n int) resources.Desired {
	pool := resources.Pool{Name: "main"}
	for i := range n {
		node := resources.StaticNode{Name: fmt.Sprintf("metal%03d", i), Labels: []string{"metal"}, Slots: 1,
			Config: cty.ObjectVal(map[string]cty.Value{"host_key_checking": cty.False})}
		node.Hashes = resources.HashValue(cty.StringVal(node.Name))
		pool.Nodes = append(pool.Nodes, node)
	}
	return resources.Desired{Labels: []resources.Label{{Name: "metal"}},
		Providers: []resources.Provider{{Name: "rack", Driver: "static", Config: cty.EmptyObjectVal, Pools: []resources.Pool{pool}}}}
}

// waitFor returns when the request is answered, which it learns from the journal.
func (x *bench) waitFor(ctx context.Context, id string) (*resources.Request, error) {
	hints, forget := x.Journal.Wait()
	defer forget()
	var seen uint64
	for {
		r, err := x.Clients.Request(id)
		if err != nil || r.State == resources.StateFulfilled || r.State == resources.StateFailed {
			return r, err
		}
		for told := false; !told; {
			select {
			case <-hints:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			for _, e := range x.Journal.Since(seen, "request/"+id) {
				seen, told = e.Number, true
			}
		}
	}
}

// BenchmarkRequests measures the life of a request: it is created and fulfilled, and its node is taken and returned.
// The sub-benchmarks run different numbers of concurrent clients. The latencies are from the creation until the waiting
// client knows that the request is fulfilled.
func BenchmarkRequests(b *testing.B) {
	for _, on := range []struct {
		name  string
		label string
		want  func() resources.Desired
	}{
		{"static nodes", "metal", func() resources.Desired { return machines(100) }},
		{"instant cloud", label(0), func() resources.Desired { return fleetOf(1, 100) }},
	} {
		for _, clients := range []int{1, 10, 50} {
			b.Run(fmt.Sprintf("%s/clients=%d", on.name, clients), func(b *testing.B) {
				x := newBench(b, on.want())
				x.begin(b)
				x.run(b)
				b.ResetTimer()
				began := time.Now()
				took := x.serve(b, clients, on.label)
				total := time.Since(began)
				b.StopTimer()
				slices.Sort(took)
				at := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))]) / 1e6 }
				b.ReportMetric(float64(len(took))/total.Seconds(), "requests/s")
				b.ReportMetric(at(.5), "p50-ms")
				b.ReportMetric(at(.95), "p95-ms")
				b.ReportMetric(at(.99), "p99-ms")
				for _, c := range x.clouds {
					b.ReportMetric(float64(c.calls.Load())/float64(len(took)), "calls/node")
				}
			})
		}
	}
}

func (x *bench) serve(b *testing.B, clients int, label string) (took []time.Duration) {
	b.Helper()
	work := make(chan struct{}, b.N)
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	var mu sync.Mutex // guards took
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for range work {
				d, err := x.life(b.Context(), label)
				if err != nil {
					b.Error(err)
					return
				}
				mu.Lock()
				took = append(took, d)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return took
}

func (x *bench) life(ctx context.Context, label string) (time.Duration, error) {
	began := time.Now()
	r, err := x.Clients.CreateRequest(ctx, NewRequest{Labels: []string{label}, Requestor: "bench"})
	if err != nil {
		return 0, err
	}
	if r, err = x.waitFor(ctx, r.ID); err != nil {
		return 0, err
	}
	took := time.Since(began)
	if r.State != resources.StateFulfilled {
		return took, fmt.Errorf("request %s is %s: %s", r.ID, r.State, r.Error)
	}
	nodes, err := x.Clients.Take(ctx, r.ID, "bench", 0)
	if err != nil {
		return took, err
	}
	for _, n := range nodes {
		if _, err := x.Clients.Return(ctx, n.ID); err != nil {
			return took, err
		}
	}
	return took, nil
}
