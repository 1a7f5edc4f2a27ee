package reconcile

import (
	"context"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/state"
)

// identifiedStore calls onIdentity before it returns its lineage, "old".
type identifiedStore struct {
	state.Store
	onIdentity func()
}

func (s *identifiedStore) Identity(context.Context) (state.Identity, error) {
	s.onIdentity()
	return state.Identity{Lineage: "old"}, nil
}

func TestInputsOfAReplacedConfigurationAreIgnored(t *testing.T) {
	store := &identifiedStore{Store: newShared(t)}
	first, next := New(Options{Store: store}), New(Options{Store: store})
	r, err := NewRunner(t.Context(), first)
	testutil.Must(t, err)
	o := NewObserver(r, "start", func() map[string]bool { return nil })
	store.onIdentity = func() { o.Use(next, plan.Observed{Installation: "new"}) }
	testutil.Must(t, o.QueryInputs(t.Context()))
	if engine, seen, _ := o.Observe(); engine != next || seen.Installation != "new" {
		t.Errorf("the inputs are those of installation %q", seen.Installation)
	}
	store.onIdentity = func() {}
	testutil.Must(t, o.QueryInputs(t.Context()))
	if _, seen, _ := o.Observe(); seen.Installation != "old" {
		t.Errorf("the inputs of the new configuration are ignored: %q", seen.Installation)
	}
}
