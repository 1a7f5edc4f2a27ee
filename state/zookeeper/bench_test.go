//go:build integration

package zookeeper_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/zookeeper"
)

// inParallel runs b.N rounds on the given number of goroutines.
func inParallel(b *testing.B, goroutines int, round func(g int)) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ResetTimer()
	for g := range goroutines {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				round(g)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "per-s")
}

func BenchmarkCommit(b *testing.B) {
	for _, claimed := range []bool{true, false} {
		for _, goroutines := range []int{1, 10, 50} {
			name := fmt.Sprintf("unclaimed-%d", goroutines)
			if claimed {
				name = fmt.Sprintf("claimed-%d", goroutines)
			}
			b.Run(name, func(b *testing.B) {
				s := newTree(b).open(b)
				entries := make([]state.Entry, goroutines)
				for g := range entries {
					entries[g] = one(b, s, state.Op{Record: node(resources.StateReady)})
					if claimed {
						_, _, err := s.Claim(b.Context(), entries[g].Record.Key())
						testutil.Must(b, err)
					}
				}
				inParallel(b, goroutines, func(g int) {
					changed := entries[g].Record.(*resources.Node)
					changed.Attempt++
					entries[g] = one(b, s, state.Op{Record: changed, Revision: entries[g].Revision})
				})
			})
		}
	}
}

func BenchmarkClaim(b *testing.B) {
	for _, goroutines := range []int{1, 50} {
		b.Run(fmt.Sprint(goroutines), func(b *testing.B) {
			s := newTree(b).open(b)
			keys := make([]resources.Key, goroutines)
			for g := range keys {
				keys[g] = one(b, s, state.Op{Record: node(resources.StateReady)}).Record.Key()
			}
			inParallel(b, goroutines, func(g int) {
				claim, _, err := s.Claim(b.Context(), keys[g])
				testutil.Must(b, err)
				testutil.Must(b, claim.Unlock(b.Context()))
			})
		})
	}
}

// BenchmarkCycle measures a request from its creation until its node is deleted and another node is ready in its place:
// npctl serves the request at once from a ready node, and a client behaves like Zuul. The packets are npctl's own.
func BenchmarkCycle(b *testing.B) {
	for _, goroutines := range []int{1, 10, 50} {
		b.Run(fmt.Sprint(goroutines), func(b *testing.B) {
			tr := newTree(b)
			s := tr.open(b, counted(tr))
			nodes := make([]state.Entry, goroutines)
			for g := range nodes {
				nodes[g] = launchNode(b, s)
			}
			arrivals := newArrivals(b, s)
			before := tr.packets(b, s)
			inParallel(b, goroutines, func(g int) { nodes[g] = cycle(b, tr, s, arrivals, nodes[g]) })
			b.ReportMetric(float64(tr.packets(b, s)-before)/float64(b.N), "packets/op")
		})
	}
}

func cycle(b *testing.B, tr *tree, s *zookeeper.Store, arrivals *arrivals, free state.Entry) state.Entry {
	asked := tr.createSequence(b, "/nodepool/requests/200-", `{"state": "requested", "node_types": ["debian"], "requestor": "zuul", "requestor_data": {"a": 1}}`)
	id := asked[strings.LastIndexByte(asked, '/')+1:]
	entry := arrivals.await(key(resources.KindRequest, id), func(state.Entry) bool { return true })
	r, n := entry.Record.(*resources.Request), free.Record.(*resources.Node)
	r.State, r.Nodes, n.Request = resources.StateFulfilled, []string{n.ID}, r.ID
	_, err := s.Commit(b.Context(), state.Op{Record: r, Revision: entry.Revision}, state.Op{Record: n, Revision: free.Revision})
	testutil.Must(b, err)
	tr.useAsZuul(b, asked, "/nodepool/nodes/"+n.ID)
	used := arrivals.await(free.Record.Key(), func(e state.Entry) bool {
		return e.Record.(*resources.Node).State == resources.StateUsed && !s.Claimed()[e.Record.Key()]
	})
	n = used.Record.(*resources.Node)
	n.State = resources.StateDeleting
	deleting := one(b, s, state.Op{Record: n, Revision: used.Revision})
	one(b, s, state.Op{Key: n.Key(), Revision: deleting.Revision})
	return launchNode(b, s)
}

// launchNode creates a ready node with the commits of an executor.
func launchNode(b *testing.B, s *zookeeper.Store) state.Entry {
	made := one(b, s, state.Op{Record: node(resources.StateInit)})
	claim, made, err := s.Claim(b.Context(), made.Record.Key())
	testutil.Must(b, err)
	for _, next := range []resources.State{resources.StateBuilding, resources.StateReady} {
		n := made.Record.(*resources.Node)
		n.State = next
		made = one(b, s, state.Op{Record: n, Revision: made.Revision})
	}
	testutil.Must(b, claim.Unlock(b.Context()))
	return made
}

// useAsZuul locks the node, deletes the request, uses the node and returns it.
func (tr *tree) useAsZuul(b *testing.B, request, at string) {
	if there, _, err := tr.raw.Exists(tr.chroot + at + "/lock"); err != nil || !there {
		tr.create(b, at+"/lock", "")
	}
	lock, err := tr.raw.Create(tr.chroot+at+"/lock/"+hex32()+"__lock__", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	testutil.Must(b, err)
	tr.delete(b, request)
	text := tr.data(b, at)
	tr.set(b, at, strings.Replace(text, `"ready"`, `"in-use"`, 1))
	tr.set(b, at, strings.Replace(text, `"ready"`, `"used"`, 1))
	testutil.Must(b, tr.raw.Delete(lock, -1))
}

// arrivals follows the store in one goroutine and wakes all goroutines that wait for records.
type arrivals struct {
	b       *testing.B
	s       *zookeeper.Store
	mu      sync.Mutex
	changed chan struct{} // guarded by mu
}

func newArrivals(b *testing.B, s *zookeeper.Store) *arrivals {
	a := &arrivals{b: b, s: s, changed: make(chan struct{})}
	hints, err := s.Watch(b.Context())
	testutil.Must(b, err)
	go func() {
		for range hints {
			a.mu.Lock()
			close(a.changed)
			a.changed = make(chan struct{})
			a.mu.Unlock()
		}
	}()
	return a
}

func (a *arrivals) await(key resources.Key, ok func(state.Entry) bool) state.Entry {
	for {
		a.mu.Lock()
		changed := a.changed
		a.mu.Unlock()
		entry, err := a.s.Get(a.b.Context(), key)
		if err == nil && ok(entry) {
			return entry
		}
		if err != nil && !errors.Is(err, state.ErrNotFound) {
			a.b.Errorf("Get: %v", err)
			return state.Entry{}
		}
		select {
		case <-changed:
		case <-a.b.Context().Done():
			return state.Entry{}
		}
	}
}

// BenchmarkOpen reads 10,000 nodes and reports the memory that each node needs.
func BenchmarkOpen(b *testing.B) {
	const nodes = 10_000
	tr := newTree(b)
	for some := range slices.Chunk(numbers(nodes), 500) {
		ops := []any{}
		if some[0] == 0 {
			for _, dir := range []string{"/nodepool", "/nodepool/nodes"} {
				ops = append(ops, &zk.CreateRequest{Path: tr.chroot + dir, Acl: zk.WorldACL(zk.PermAll)})
			}
		}
		for _, n := range some {
			at := fmt.Sprintf("%s/nodepool/nodes/%010d", tr.chroot, n)
			ops = append(ops, &zk.CreateRequest{Path: at, Data: []byte(nodeDocument("ready", n)), Acl: zk.WorldACL(zk.PermAll)},
				&zk.CreateRequest{Path: at + "/lock", Acl: zk.WorldACL(zk.PermAll)})
		}
		_, err := tr.raw.Multi(ops...)
		testutil.Must(b, err)
	}
	var memory uint64
	for b.Loop() {
		before := heap()
		s := tr.open(b)
		memory = heap() - before
		entries, err := s.List(context.Background())
		testutil.Must(b, err)
		if len(entries) != nodes {
			b.Fatalf("%d nodes", len(entries))
		}
		testutil.Must(b, s.Close())
	}
	b.ReportMetric(float64(memory)/nodes, "B/node")
}

func BenchmarkList(b *testing.B) {
	tr := newTree(b)
	s := tr.open(b)
	for range 20 {
		ops := make([]state.Op, 500)
		for i := range ops {
			ops[i].Record = node(resources.StateReady)
		}
		_, err := s.Commit(b.Context(), ops...)
		testutil.Must(b, err)
	}
	b.ResetTimer()
	for b.Loop() {
		_, err := s.List(b.Context(), resources.KindNode)
		testutil.Must(b, err)
	}
}

func numbers(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
