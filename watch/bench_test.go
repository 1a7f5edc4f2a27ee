package watch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/static"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
)

// instant is a cloud in memory that completes every call at once.
type instant struct {
	mu        sync.Mutex // guards instances
	instances map[string]resources.Instance
	next      atomic.Int64
	calls     atomic.Int64
}

func (*instant) Kind() string { return "instant" }
func (*instant) Schema() schema.Driver {
	return schema.Driver{}
}
func (c *instant) Open(context.Context, drivers.Env, cty.Value) (drivers.Cloud, error) { return c, nil }

func (c *instant) Create(_ context.Context, spec drivers.Spec) (resources.Instance, error) {
	c.calls.Add(1)
	i := resources.Instance{ID: strconv.FormatInt(c.next.Add(1), 10), Name: spec.Hostname, Marks: spec.Marks, Status: resources.StatusReady,
		Addresses: resources.Addresses{Interface: "192.0.2.1"}, Zone: "nova", Region: "one", Flavor: "small",
		Resources: resources.ResourceAmounts{Instances: 1, Cores: 1, RAM: 2048}, Created: time.Now()}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.instances[i.ID] = i
	return i, nil
}

func (c *instant) Advance(_ context.Context, _ drivers.Spec, seen resources.Instance) (resources.Instance, error) {
	return seen, nil // no work is left, so the test makes no call
}

func (c *instant) Delete(_ context.Context, id string, _ resources.OwnerTags) error {
	c.calls.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.instances, id)
	return nil
}

func (c *instant) List(context.Context) ([]resources.Instance, error) {
	c.calls.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]resources.Instance, 0, len(c.instances))
	for _, i := range c.instances {
		list = append(list, i)
	}
	return list, nil
}

func (c *instant) Quota(context.Context) (resources.Quota, error) {
	c.calls.Add(1)
	none := int64(resources.Unlimited)
	return resources.Quota{Limit: resources.ResourceAmounts{Instances: none, Cores: none, RAM: none, Volumes: none, VolumeGB: none, Addresses: none}}, nil
}

func (c *instant) ResolveOffer(context.Context, cty.Value) (resources.ResolvedOffer, []resources.Problem, error) {
	return resources.ResolvedOffer{Flavor: "small", Resources: resources.ResourceAmounts{Cores: 1, RAM: 2048}}, nil, nil
}

func (c *instant) ResolveImage(context.Context, resources.CloudImageSpec) (resources.RemoteImage, []resources.Problem, error) {
	return resources.RemoteImage{ID: "image", Status: resources.StatusReady}, nil, nil
}

func (*instant) Close() error { return nil }

// bench is a daemon over instant clouds.
type bench struct {
	*Daemon
	dir    string
	clouds map[string]*instant
	store  *bolt.Store
}

// clouds holds a driver for each provider, so that each has a cloud of its own.
func newBench(b *testing.B, desired resources.Desired) *bench {
	b.Helper()
	x := &bench{dir: b.TempDir(), clouds: map[string]*instant{}}
	all := map[string]drivers.Driver{"static": static.New()}
	for i := range desired.Providers {
		if p := &desired.Providers[i]; p.Driver != "static" {
			x.clouds[p.Name] = &instant{instances: map[string]resources.Instance{}}
			p.Driver = p.Name
			all[p.Name] = x.clouds[p.Name]
		}
	}
	desired.Settings.Dir, desired.Settings.ImagesDir = x.dir, "images"
	var err error
	if x.store, err = bolt.Open(bolt.Options{Path: filepath.Join(x.dir, "npctl.db")}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = x.store.Close() })
	e := reconcile.New(reconcile.Options{Desired: desired, Store: x.store, Drivers: all, DataDir: x.dir})
	x.Daemon = &Daemon{Options: Options{Engine: e}}
	return x
}

// begin creates the daemon after the store is filled.
func (x *bench) begin(b *testing.B) {
	b.Helper()
	d, err := New(b.Context(), Options{Engine: x.Engine})
	testutil.Must(b, err)
	x.Daemon = d
}

// run runs the daemon until the benchmark ends.
func (x *bench) run(b *testing.B) {
	b.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(b.Context()))
	done := make(chan error, 1)
	go func() { done <- x.Run(ctx, time.Minute) }()
	b.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	for len(x.ProvidersNotListed()) > 0 || x.Last().Observed.Installation == "" {
		time.Sleep(time.Millisecond)
	}
}

// look lists every provider once, as the goroutines of Run do.
func (x *bench) look(b *testing.B) {
	b.Helper()
	testutil.Must(b, x.observer.QueryInputs(b.Context()))
	for i := range x.Engine.Desired.Providers {
		name := x.Engine.Desired.Providers[i].Name
		x.pollers.onListing(b.Context(), name, x.runner.ListProvider(b.Context(), name))
	}
}

func label(i int) string { return fmt.Sprintf("label-%02d", i) }

// fleetOf returns a configuration with the given number of providers. Each has a pool that is full with the given
// number of nodes of 50 labels.
func fleetOf(providers, each int) resources.Desired {
	var want resources.Desired
	full := int64(each)
	for i := range 50 {
		want.Labels = append(want.Labels, resources.Label{Name: label(i)})
	}
	for i := range providers {
		p := resources.Provider{Name: fmt.Sprintf("provider-%02d", i), Config: cty.EmptyObjectVal,
			CloudImages: []resources.CloudImageSpec{{Name: "debian"}}}
		pool := resources.Pool{Name: "main", Limits: resources.Limits{MaxServers: &full}}
		for j := range 50 {
			pool.Offers = append(pool.Offers, resources.Offer{Label: label(j), Image: resources.ImageRef{Kind: resources.CloudImage, Name: "debian"},
				Config: cty.EmptyObjectVal, Hashes: resources.HashValue(cty.StringVal(label(j)))})
		}
		p.Pools = []resources.Pool{pool}
		want.Providers = append(want.Providers, p)
	}
	return want
}

// fill adds nodes in use to the store and the clouds, and requests that wait for capacity.
func (x *bench) fill(b *testing.B, each, requests int, labels func(int) []string) {
	b.Helper()
	identity, err := x.store.Identity(b.Context())
	testutil.Must(b, err)
	now, n := time.Now(), 0
	var ops []state.Op
	for i := range x.Engine.Desired.Providers {
		p := &x.Engine.Desired.Providers[i]
		for j := range each {
			n++
			offer := &p.Pools[0].Offers[j%50]
			node := &resources.Node{ID: fmt.Sprintf("%010d", n), State: resources.StateReady, StateTime: now, Created: now.Add(-time.Hour), Provider: p.Name,
				Pool: "main", Labels: []string{offer.Label}, Hash: offer.Hashes.Current(), ExternalID: strconv.Itoa(n), Image: "cloud_image.debian",
				ImageID: "image", Attempt: 1, Addresses: resources.Addresses{Interface: "192.0.2.1", PublicIPv4: "192.0.2.1"}, Zone: "nova", Region: "one",
				Hostname: fmt.Sprintf("np%010d", n), HostKeys: []string{strings.Repeat("k", 80)}, Resources: resources.ResourceAmounts{Instances: 1, Cores: 1, RAM: 2048}}
			ops = append(ops, state.Op{Record: node})
			x.clouds[p.Name].instances[node.ExternalID] = resources.Instance{ID: node.ExternalID, Name: node.Hostname, Status: resources.StatusReady,
				Marks:     resources.OwnerTags{Installation: identity.Lineage, Kind: resources.KindNode, ID: node.ID, Provider: p.Name, Pool: "main", Label: offer.Label, Hash: node.Hash},
				Addresses: node.Addresses, Zone: "nova", Resources: node.Resources}
		}
	}
	for i := range requests {
		ops = append(ops, state.Op{Record: &resources.Request{ID: fmt.Sprintf("%010d", i+1), State: resources.StateRequested, StateTime: now, Created: now,
			Labels: labels(i), Priority: 200, Requestor: "zuul"}})
	}
	x.commit(b, ops)
	for i := range ops {
		if node, ok := ops[i].Record.(*resources.Node); ok {
			used := *node
			used.State = resources.StateInUse
			ops[i] = state.Op{Record: &used, Force: true}
		}
	}
	x.commit(b, ops[:n])
}

func (x *bench) commit(b *testing.B, ops []state.Op) {
	b.Helper()
	for part := range slices.Chunk(ops, 1000) {
		if _, err := x.store.Commit(b.Context(), part...); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPass measures a pass over 10,000 nodes and 1,000 requests that wait because all pools are full.
func BenchmarkPass(b *testing.B) {
	for _, requests := range []struct {
		name   string
		n      int
		labels func(i int) []string
	}{
		{"no requests", 0, nil},
		{"1000 requests for one node", 1000, func(i int) []string { return []string{label(i % 50)} }},
		{"1000 requests, no two alike", 1000, func(i int) []string { return []string{label(i % 50), label(i / 50 % 50), label(i * 7 % 50)} }},
	} {
		b.Run(requests.name, func(b *testing.B) {
			x := newBench(b, fleetOf(20, 500))
			x.fill(b, 500, requests.n, requests.labels)
			x.begin(b)
			x.look(b)
			x.pass(b.Context())
			if steps := x.Last().Started; len(steps) > 0 {
				b.Fatalf("%d steps in a world where nothing can be done: %+v", len(steps), steps[0])
			}
			if n := len(x.Last().Observed.Records.Nodes); n != 10_000 {
				b.Fatalf("%d nodes", n)
			}
			b.ReportAllocs()
			for b.Loop() {
				x.pass(b.Context())
			}
		})
	}
}

// BenchmarkMemory reports the heap of a daemon with 10,000 nodes and 1,000 requests, and the resident memory of the
// process after the daemon has run for a while.
func BenchmarkMemory(b *testing.B) {
	x := newBench(b, fleetOf(20, 500))
	x.fill(b, 500, 1000, func(i int) []string { return []string{label(i % 50)} })
	x.begin(b)
	x.look(b)
	for b.Loop() {
		x.pass(b.Context())
	}
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	kept := 0
	for _, c := range x.clouds { // the emulated clouds are in the same process
		kept += len(c.instances)
	}
	b.ReportMetric(float64(stats.HeapAlloc)/1e6, "MB-kept")
	b.ReportMetric(float64(resident(b))/1e6, "MB-resident")
	b.ReportMetric(float64(kept), "instances")
}

// resident returns the resident memory of the process, in bytes.
func resident(b *testing.B) int64 {
	b.Helper()
	status, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Skip("there is no /proc here")
	}
	pages, err := strconv.ParseInt(strings.Fields(string(status))[1], 10, 64)
	testutil.Must(b, err)
	return pages * int64(os.Getpagesize())
}
