// Package statetest is the test suite for the contract of state.Store. Every store runs it. Permitted deviations of a
// store are fields of Harness.
package statetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// Harness describes a store to the suite.
type Harness struct {
	// New creates an empty store for one test and returns a function that opens it. Each call of that function returns
	// a separate handle, as in another process. The harness closes it at the end of the test.
	New func(t *testing.T) (open func(t *testing.T) state.Store)
	// Steal takes a lock from its holder, as an operator or the end of a session does. It may use any handle.
	Steal func(t *testing.T, s state.Store, name string, lock state.Lock)

	// Kinds lists the kinds of records that the store keeps; nil means all.
	Kinds []resources.Kind
	// Within is the maximum delay of hints and of the detection of lost locks; 10 s when zero.
	Within time.Duration
	// ListNotAtomic states that a List of several records is not as of one moment.
	ListNotAtomic bool
	// AnyMove states that Commit does not enforce resources.LegalTransition.
	AnyMove bool
}

// Run runs the suite, with its tests in parallel.
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

// test tests one rule of the contract.
type test struct {
	name string
	run  func(e *env)
}

// env is the environment of a test: one store, which it can open several times.
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

// holder returns a holder on a machine on which no test runs, so that no store can determine that its process is dead.
func holder(operation string) state.Holder {
	return state.Holder{Operation: operation, UserHost: "ann@elsewhere.example", Host: "elsewhere.example", PID: 4711,
		Since: time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC), Version: "0.1.0"}
}
