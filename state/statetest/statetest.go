// Package statetest is the contract of state.Store as a test suite. Every store runs it; what a store does otherwise
// for a good reason is a field of Harness, and nothing else is.
package statetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// Harness tells the suite about a store.
type Harness struct {
	// New makes an empty store for one test and returns a function that opens it. Each call of that function is a
	// handle of its own, as another process would have, and the harness closes it at the end of the test.
	New func(t *testing.T) (open func(t *testing.T) state.Store)
	// Steal takes a lock away from whoever holds it, as an operator or a session that ended would. It may use any
	// handle.
	Steal func(t *testing.T, s state.Store, name string, lock state.Lock)

	// Kinds are the kinds of records that the store keeps; nil means all.
	Kinds []resources.Kind
	// Within is how long hints and losses may take to be noticed; 10 s when zero.
	Within time.Duration
	// ListNotAtomic says that List of several records is not as of one moment.
	ListNotAtomic bool
	// AnyMove says that Commit does not hold records to resources.LegalMove.
	AnyMove bool
}

// Run runs the suite, the tests side by side.
func Run(t *testing.T, h Harness) {
	if h.Within == 0 {
		h.Within = 10 * time.Second
	}
	if h.Kinds == nil {
		h.Kinds = resources.Kinds()
	}
	for _, part := range []struct {
		name  string
		tests []test
	}{
		{"Get", getTests}, {"List", listTests}, {"Commit", commitTests}, {"IDs", idTests}, {"Copies", copyTests},
		{"Watch", watchTests}, {"Lock", lockTests}, {"Lost", lostTests}, {"Close", closeTests}, {"Context", contextTests},
		{"Identity", identityTests}, {"Model", modelTests},
	} {
		t.Run(part.name, func(t *testing.T) {
			for _, test := range part.tests {
				t.Run(test.name, func(t *testing.T) {
					t.Parallel()
					test.run(&env{T: t, Harness: h, open: h.New(t)})
				})
			}
		})
	}
}

// test is one sentence of the contract.
type test struct {
	name string
	run  func(e *env)
}

// env is what a test works with: one store, opened as often as it likes.
type env struct {
	*testing.T
	Harness
	open func(t *testing.T) state.Store
}

func (e *env) store() state.Store {
	e.Helper()
	return e.open(e.T)
}

func (e *env) has(kind resources.Kind) bool { return slices.Contains(e.Kinds, kind) }

func (e *env) ctx() context.Context { return e.Context() }

func (e *env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatalf("unexpected error: %v", err)
	}
}

// create commits new records and returns their entries.
func (e *env) create(s state.Store, records ...resources.Record) []state.Entry {
	e.Helper()
	ops := make([]state.Op, len(records))
	for i, r := range records {
		ops[i] = state.Op{Record: r}
	}
	entries, err := s.Commit(e.ctx(), ops...)
	e.must(err)
	if len(entries) != len(records) {
		e.Fatalf("%d entries for %d ops", len(entries), len(records))
	}
	return entries
}

func (e *env) get(s state.Store, key resources.Key) state.Entry {
	e.Helper()
	entry, err := s.Get(e.ctx(), key)
	e.must(err)
	return entry
}

func (e *env) list(s state.Store, kinds ...resources.Kind) []state.Entry {
	e.Helper()
	entries, err := s.List(e.ctx(), kinds...)
	e.must(err)
	return entries
}

func (e *env) lock(s state.Store, name string) state.Lock {
	e.Helper()
	l, err := s.Lock(e.ctx(), name, holder("apply"))
	e.must(err)
	return l
}

// holder is somebody on a machine that no test runs on, so that no store can find out that it is dead.
func holder(operation string) state.Holder {
	return state.Holder{Operation: operation, Who: "ann@elsewhere.example", Host: "elsewhere.example", PID: 4711,
		Since: time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC), Version: "0.1.0"}
}
