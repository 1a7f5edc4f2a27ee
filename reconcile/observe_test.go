package reconcile

import (
	"context"
	"sync"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
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

func noneFrozen() map[string]bool { return nil }

// A provider is frozen while an observation is made, and a request is created right after that.
func TestRequestMadeAfterAFreezeIsNotObservedBeforeIt(t *testing.T) {
	r, err := NewRunner(t.Context(), New(Options{Store: newShared(t)}))
	testutil.Must(t, err)
	create := sync.OnceValue(func() error {
		_, err := r.Commit(t.Context(), state.Op{Record: &resources.Request{ID: "1", State: resources.StateRequested}})
		return err
	})
	o := NewObserver(r, "here", func() map[string]bool { testutil.Must(t, create()); return nil })
	if _, seen, _ := o.Observe(); len(seen.Records.Requests) > 0 {
		t.Error("the observation has the request, but not the freeze before it")
	}
	if _, seen, _ := o.Observe(); len(seen.Records.Requests) != 1 {
		t.Error("the next observation lacks the request")
	}
}

func TestInputsOfAReplacedConfigurationAreIgnored(t *testing.T) {
	store := &identifiedStore{Store: newShared(t)}
	first, next := New(Options{Store: store}), New(Options{Store: store})
	r, err := NewRunner(t.Context(), first)
	testutil.Must(t, err)
	o := NewObserver(r, "start", noneFrozen)
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
