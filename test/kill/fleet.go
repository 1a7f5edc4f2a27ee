package kill

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/builders/exec"
	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/test/cloudlab"
)

// Fleet is a configuration with its state. Each run has an engine of its own, as a process has.
type Fleet struct {
	Dir     string                    // of npctl.hcl and the state
	Drivers map[string]drivers.Driver // by kind
	// Changes describes a call that changes the cloud; "" for others. Nil means that no HTTP call does.
	Changes func(*http.Request) string
	// Wrap, if set, wraps the transports of the drivers.
	Wrap func(http.RoundTripper) http.RoundTripper
	// OnlyCalls leaves out the commits.
	OnlyCalls bool
	// OnlyBefore leaves out the points after effects: each equals the one before the next effect, if no steps run at the
	// same time.
	OnlyBefore bool

	runs int
}

// leakAge is the default of leak_age. A fleet is this much older in each run, so that leaks are seen twice.
const leakAge = 10 * time.Minute

// Run executes one apply, which k may kill.
func (f *Fleet) Run(t testing.TB, k *Killer, opt plan.Options) (plan.Plan, error) {
	t.Helper()
	desired, err := cloudlab.Load(f.Dir, f.Drivers)
	testutil.Must(t, err)
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(f.Dir, "npctl.db")})
	testutil.Must(t, err)
	defer store.Close() //nolint:errcheck // a test's
	f.runs++
	later := time.Duration(f.runs) * leakAge
	var used state.Store = Store{Store: store, Killer: k}
	if f.OnlyCalls {
		used = store
	}
	e := reconcile.New(reconcile.Options{Desired: desired, Store: used, Drivers: f.Drivers, Builders: map[string]builders.Builder{"exec": &exec.Builder{}},
		DataDir: filepath.Join(f.Dir, "data"), Now: func() time.Time { return time.Now().Add(later) },
		WrapTransport: func(inner http.RoundTripper) http.RoundTripper {
			if f.Wrap != nil {
				inner = f.Wrap(inner)
			}
			if f.Changes == nil {
				return inner
			}
			return k.Transport(inner, f.Changes)
		}})
	defer e.Close() //nolint:errcheck // as above
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	k.OnDeath = cancel // a killed engine waits for nothing
	p, _, err := Apply(ctx, e, opt)
	if len(p.Problems) > 0 {
		t.Fatal(err)
	}
	return p, err
}

// Apply executes one `npctl apply`: observe, sight, compute, execute. The error of a plan with problems is the first of
// them; otherwise it contains the errors of all steps.
func Apply(ctx context.Context, e *reconcile.Engine, opt plan.Options) (plan.Plan, reconcile.Result, error) {
	seen, err := e.Observe(ctx, true)
	if err != nil {
		return plan.Plan{}, reconcile.Result{}, err
	}
	if err := e.Sight(ctx, seen); err != nil {
		return plan.Plan{}, reconcile.Result{}, err
	}
	p := plan.Compute(e.Desired, seen, opt)
	if len(p.Problems) > 0 {
		return p, reconcile.Result{}, fmt.Errorf("%s: %s", p.Problems[0].Address, p.Problems[0].Text)
	}
	result, err := e.Execute(ctx, p, opt, seen)
	if err == nil {
		err = result.Err()
	}
	for _, failed := range slices.Concat(result.Failed, result.Interrupted, result.Skipped) {
		err = fmt.Errorf("%w\n%s: %w", err, failed.Step.ID, failed.Err)
	}
	return p, result, err
}

// MustRun executes one apply to its end.
func (f *Fleet) MustRun(t testing.TB, opt plan.Options) plan.Plan {
	t.Helper()
	p, err := f.Run(t, &Killer{}, opt)
	testutil.Must(t, err)
	return p
}

// Everywhere kills an apply and a destroy before and after every changing call and every commit. The next runs must
// complete the work. has counts the fleet's objects in the cloud by kind, of which whole is the number for the configuration.
func (f *Fleet) Everywhere(t *testing.T, whole map[string]int, has func() map[string]int) {
	t.Helper()
	wanted := map[bool]map[string]int{false: whole, true: {}}
	points := map[bool]int{}
	for _, destroy := range []bool{false, true} {
		k := &Killer{}
		_, err := f.Run(t, k, plan.Options{Destroy: destroy})
		testutil.Must(t, err)
		f.settle(t, "not killed", destroy, wanted[destroy], has)
		points[destroy] = k.Points()
	}
	t.Logf("an apply has %d points, a destroy %d", points[false], points[true])
	if least := map[bool]int{false: 10, true: 6}[f.OnlyCalls]; points[false] < least || points[true] < least/2 {
		t.Errorf("the killer sees too little")
	}
	stride := map[bool]int{false: 1, true: 2}[f.OnlyBefore]
	for at := 1; at <= max(points[false], points[true]) && !t.Failed(); at += stride {
		for _, destroy := range []bool{false, true} {
			k := &Killer{}
			k.Revive(at)
			_, err := f.Run(t, k, plan.Options{Destroy: destroy})
			where, dead := k.Died()
			where = fmt.Sprintf("point %d (destroy: %t): killed %s", at, destroy, where)
			if dead == (err == nil) { // the order and the number of calls of parallel steps vary a little
				t.Errorf("%s, and the run ended with %v", where, err)
			}
			f.settle(t, where, destroy, wanted[destroy], has)
		}
	}
}

// settle runs until the objects are as wanted and nothing is left to do.
func (f *Fleet) settle(t *testing.T, where string, destroy bool, want map[string]int, has func() map[string]int) {
	t.Helper()
	var p plan.Plan
	for range 5 {
		if p = f.MustRun(t, plan.Options{Destroy: destroy}); len(p.Steps) == 0 && maps.Equal(has(), want) {
			return
		}
	}
	t.Errorf("%s: after 5 further runs the objects are %v, want %v; the last plan has %d steps", where, has(), want, len(p.Steps))
}
