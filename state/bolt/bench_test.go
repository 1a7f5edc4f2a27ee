package bolt_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/state/statetest"
)

// BenchmarkList opens the store for each List, as `npctl state list` does.
func BenchmarkList(b *testing.B) {
	for _, nodes := range []int{100, 6_000, 10_000} {
		path := filled(b, nodes)
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s, err := bolt.Open(bolt.Options{Path: path, ReadOnly: true})
				testutil.Must(b, err)
				entries, err := s.List(b.Context(), resources.KindNode)
				if err != nil || len(entries) != nodes {
					b.Fatal(len(entries), err)
				}
				s.Close()
			}
		})
	}
}

// BenchmarkGet and BenchmarkCommit run in a store with 6,000 nodes.
func BenchmarkGet(b *testing.B) {
	s := reopen(b, filled(b, 6_000))
	for b.Loop() {
		if _, err := s.Get(b.Context(), resources.Key{Kind: resources.KindNode, ID: "0000003000"}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCommit(b *testing.B) {
	for _, ops := range []int{1, 100} {
		b.Run(fmt.Sprintf("ops=%d", ops), func(b *testing.B) {
			s := reopen(b, filled(b, 6_000))
			entries, err := s.List(b.Context(), resources.KindNode)
			testutil.Must(b, err)
			for i := 0; b.Loop(); i++ {
				commit := make([]state.Op, ops)
				for j := range commit {
					commit[j] = state.Op{Record: entries[(i*7919+j*61)%len(entries)].Record, Force: true}
				}
				if _, err := s.Commit(b.Context(), commit...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCommitConcurrently(b *testing.B) {
	s := reopen(b, filled(b, 6_000))
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.Commit(b.Context(), state.Op{Record: statetest.Node(1)}); err != nil {
				b.Error(err)
			}
		}
	})
}

func filled(b *testing.B, nodes int) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "npctl.db")
	s := reopen(b, path)
	ops := make([]state.Op, nodes)
	for i := range ops {
		ops[i] = state.Op{Record: statetest.Node(i)}
	}
	if _, err := s.Commit(b.Context(), ops...); err != nil {
		b.Fatal(err)
	}
	return path
}

func reopen(b *testing.B, path string) *bolt.Store {
	b.Helper()
	s, err := bolt.Open(bolt.Options{Path: path})
	testutil.Must(b, err)
	b.Cleanup(func() { s.Close() })
	return s
}
