package reconcile_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/test/kill"
)

// readyStore keeps the least number of ready nodes and uploads after any commit.
type readyStore struct {
	kill.Store
	t      testing.TB
	before plan.Records

	mu    sync.Mutex // guards least
	least map[plan.Supply]int
}

func watchReady(t testing.TB, store kill.Store) *readyStore {
	s := &readyStore{Store: store, t: t}
	s.before, s.least = s.supplies()
	return s
}

// supplies returns the records of nodes and uploads, and how many of them are ready.
func (s *readyStore) supplies() (r plan.Records, ready map[plan.Supply]int) {
	s.t.Helper()
	ready = map[plan.Supply]int{}
	for _, kind := range []resources.Kind{resources.KindNode, resources.KindUpload} {
		entries, err := s.List(context.Background(), kind)
		testutil.Must(s.t, err)
		for _, entry := range entries {
			switch record := entry.Record.(type) {
			case *resources.Node:
				r.Nodes = append(r.Nodes, record)
				if record.State == resources.StateReady && record.Request == "" {
					for _, label := range record.Labels {
						ready[plan.Supply{Label: label}]++
					}
				}
			case *resources.Upload:
				r.Uploads = append(r.Uploads, record)
				if record.State == resources.StateReady {
					ready[plan.Supply{Image: record.Image, Provider: record.Provider}]++
				}
			}
		}
	}
	return r, ready
}

// Commit implements state.Store.
func (s *readyStore) Commit(ctx context.Context, ops ...state.Op) ([]state.Entry, error) {
	entries, err := s.Store.Commit(ctx, ops...)
	if keys := kill.KeysOf(ops); !strings.Contains(keys, " node/") && !strings.Contains(keys, " upload/") {
		return entries, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ready := s.supplies()
	for of, n := range s.least {
		s.least[of] = min(n, ready[of])
	}
	return entries, err
}

// check compares the observed numbers with those that a plan announced, whose steps have all succeeded. It returns how many there are.
func (s *readyStore) check(t testing.TB, p plan.Plan) int {
	t.Helper()
	announced := plan.LeastReadyOf(p, s.before)
	for _, l := range announced {
		if observed := s.least[l.Supply]; observed < l.Least {
			t.Errorf("%+v had %d ready at a moment, the plan announces %d at least:\n%s", l.Supply, observed, l.Least, text(p))
		}
	}
	return len(announced)
}
