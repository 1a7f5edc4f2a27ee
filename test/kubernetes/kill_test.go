//go:build integration

package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/kubernetes"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/test/gate"
	"github.com/npctl/npctl/test/kubernetes/cluster"
	"github.com/npctl/npctl/test/sandboxlab"
)

var errKilled = errors.New("killed")

// killer kills an engine at one of the points at which it changes the cluster or its state: before or after a call or a
// commit. Calls and commits after that have no effect.
type killer struct {
	mu     sync.Mutex // guards the fields below
	points int        // number of points passed
	at     int        // the point of the kill; 0: none
	where  string     // what was killed there
}

func (k *killer) pass(what string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.where != "" {
		return errKilled
	}
	if k.points++; k.points == k.at {
		k.where = what
		return errKilled
	}
	return nil
}

func (k *killer) transport(next http.RoundTripper) http.RoundTripper {
	next = cluster.Projects{Next: next}
	return testutil.RoundTripper(func(r *http.Request) (*http.Response, error) {
		call := r.Method + " " + r.URL.Path
		if !gate.Changes(call) {
			return next.RoundTrip(r)
		}
		if err := k.pass("before " + call); err != nil {
			return nil, err
		}
		answer, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		if err := k.pass("after " + call); err != nil {
			_ = answer.Body.Close()
			return nil, err
		}
		return answer, nil
	})
}

// killedStore adds the points of commits.
type killedStore struct {
	*bolt.Store
	kill *killer
}

func (s killedStore) Commit(ctx context.Context, ops ...state.Op) ([]state.Entry, error) {
	if err := s.kill.pass(fmt.Sprintf("before a commit of %d records", len(ops))); err != nil {
		return nil, err
	}
	entries, err := s.Store.Commit(ctx, ops...)
	if err != nil {
		return nil, err
	}
	return entries, s.kill.pass(fmt.Sprintf("after a commit of %d records", len(ops)))
}

// fleet is a provider of one of the drivers, with its own state.
type fleet struct {
	t        *testing.T
	dir      string
	provider string
}

// run executes a plan in an engine that k kills.
func (f *fleet) run(k *killer, opt plan.Options) (plan.Plan, error) {
	f.t.Helper()
	kinds := map[string]drivers.Driver{}
	for _, d := range []drivers.Driver{kubernetes.New(), kubernetes.NewOpenShift(), kubernetes.NewOpenShiftPods()} {
		kinds[d.Kind()] = d
	}
	desired, err := sandboxlab.Load(f.dir, kinds)
	testutil.Must(f.t, err)
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(f.dir, "npctl.db")})
	testutil.Must(f.t, err)
	defer store.Close() //nolint:errcheck // a test's
	e := reconcile.New(reconcile.Options{Desired: desired, Store: killedStore{store, k}, Drivers: kinds, DataDir: filepath.Join(f.dir, "data"), WrapTransport: k.transport})
	defer e.Close() //nolint:errcheck // as above
	seen, err := e.Observe(f.t.Context(), true)
	if err != nil {
		return plan.Plan{}, err
	}
	if err := e.Sight(f.t.Context(), seen); err != nil {
		return plan.Plan{}, err
	}
	p := plan.Compute(e.Desired, seen, opt)
	if len(p.Problems) > 0 {
		f.t.Fatalf("%s: %s", p.Problems[0].Address, p.Problems[0].Text)
	}
	result, err := e.Execute(f.t.Context(), p, seen)
	if err == nil {
		err = result.Err()
	}
	for _, failed := range slices.Concat(result.Failed, result.Interrupted, result.Skipped) {
		err = fmt.Errorf("%w\n%s: %w", err, failed.Step.ID, failed.Err)
	}
	return p, err
}

// mustRun executes a plan to its end.
func (f *fleet) mustRun(opt plan.Options) plan.Plan {
	f.t.Helper()
	p, err := f.run(&killer{}, opt)
	testutil.Must(f.t, err)
	return p
}

// has returns the objects of the fleet in the cluster. The name of the provider is in the description of projects.
func (f *fleet) has() []string {
	f.t.Helper()
	list := objects(f.t, "npctl/provider="+f.provider)
	for range projectsOf(f.t, f.provider) {
		list = append(list, "project")
	}
	return list
}

// killedFleets are the nodes of a fleet, one for each label, and their objects, by driver.
var killedFleets = map[string]struct {
	labels map[string]string
	want   []string
}{
	"kubernetes":    {map[string]string{"pod": "type = \"pod\"\nimage = \"debian:12\"", "space": `type = "namespace"`}, []string{"namespace pod", "namespace space", "pod pod"}},
	"openshift":     {map[string]string{"pod": "type = \"pod\"\nimage = \"debian:12\""}, []string{"pod pod", "project"}},
	"openshiftpods": {map[string]string{"pod": `image = "debian:12"`}, []string{"pod pod"}},
}

// newFleet returns a fleet of a driver, and its objects.
func newFleet(t *testing.T, driver, provider string) (f *fleet, want []string) {
	t.Helper()
	f = &fleet{t: t, dir: t.TempDir(), provider: provider}
	project, labels, offers := "", "", ""
	if driver == "openshiftpods" {
		project = `project = "killed"`
	}
	for name, attributes := range killedFleets[driver].labels {
		labels += fmt.Sprintf("label %q { min_ready = 1 }\n", name)
		offers += fmt.Sprintf("label %q {\n%s\n}\n", name, attributes)
	}
	testutil.WriteFile(t, filepath.Join(f.dir, "npctl.hcl"), fmt.Sprintf("%s\nprovider %q %q {\nrate = 0\n%s\npool \"main\" {\n%s\n}\n}\n", labels, driver, provider, project, offers))
	return f, killedFleets[driver].want
}

// TestKilledAtEveryCallAndCommit kills an apply and a destroy before and after every changing call and every commit. The
// next run must complete the work: no second object, none left, and no change of the objects of others.
func TestKilledAtEveryCallAndCommit(t *testing.T) {
	t.Parallel()
	project(t, "killed")
	foreign(t, "")
	foreign(t, "killed")
	for _, driver := range slices.Sorted(maps.Keys(killedFleets)) {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			f, want := newFleet(t, driver, driver)
			for _, destroy := range []bool{false, true} {
				k := &killer{}
				_, err := f.run(k, plan.Options{Destroy: destroy})
				testutil.Must(t, err)
				if got := f.has(); !destroy && !slices.Equal(got, want) || destroy && len(got) > 0 {
					t.Fatalf("after a run without a kill the cluster has %q", got)
				}
				name := map[bool]string{false: "apply", true: "destroy"}[destroy]
				t.Logf("%s has %d points", name, k.points)
				if least := map[bool]int{false: 8, true: 6}[destroy]; k.points < least {
					t.Errorf("%s has only %d points: the killer sees too little", name, k.points)
				}
				for at := range k.points {
					t.Run(fmt.Sprintf("%s-%d", name, at+1), func(t *testing.T) {
						t.Parallel()
						one, want := newFleet(t, driver, fmt.Sprintf("%s-%s-%d", driver, name, at+1))
						one.killedAt(at+1, plan.Options{Destroy: destroy}, want)
					})
				}
			}
		})
	}
}

// killedAt runs a plan with a kill at a point, and completes it.
func (f *fleet) killedAt(at int, opt plan.Options, want []string) {
	f.t.Helper()
	if opt.Destroy {
		f.mustRun(plan.Options{})
	}
	k := &killer{at: at}
	_, err := f.run(k, opt)
	if k.where == "" { // the order and the number of calls of two nodes vary a little
		testutil.Must(f.t, err)
	} else if err == nil {
		f.t.Errorf("killed %s, and the run ended well", k.where)
	}
	f.mustRun(opt)
	if opt.Destroy {
		want = nil
	}
	if got := f.has(); !slices.Equal(got, want) {
		f.t.Errorf("killed %s: the cluster has %q, want %q", k.where, got, want)
	}
	if p := f.mustRun(opt); len(p.Steps) > 0 {
		f.t.Errorf("killed %s: a further plan has %d steps", k.where, len(p.Steps))
	}
	f.mustRun(plan.Options{Destroy: true})
	if left := f.has(); len(left) > 0 {
		f.t.Errorf("killed %s: a destroy leaves %q", k.where, left)
	}
}
