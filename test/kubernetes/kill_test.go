//go:build integration

package kubernetes

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"testing"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/kubernetes"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/test/gate"
	"github.com/npctl/npctl/test/kill"
	"github.com/npctl/npctl/test/kubernetes/cluster"
)

// changed describes a call that changes the cluster.
func changed(r *http.Request) string {
	if call := r.Method + " " + r.URL.Path; gate.Changes(call) {
		return call
	}
	return ""
}

// fleet is a provider of one of the drivers, with its own state.
type fleet struct {
	kill.Fleet
	t        *testing.T
	provider string
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
	kinds := map[string]drivers.Driver{}
	for _, d := range []drivers.Driver{kubernetes.New(), kubernetes.NewOpenShift(), kubernetes.NewOpenShiftPods()} {
		kinds[d.Kind()] = d
	}
	f = &fleet{t: t, provider: provider, Fleet: kill.Fleet{Dir: t.TempDir(), Drivers: kinds, Changes: changed,
		Wrap: func(next http.RoundTripper) http.RoundTripper { return cluster.Projects{Next: next} }}}
	project, labels, offers := "", "", ""
	if driver == "openshiftpods" {
		project = `project = "killed"`
	}
	for name, attributes := range killedFleets[driver].labels {
		labels += fmt.Sprintf("label %q { min_ready = 1 }\n", name)
		offers += fmt.Sprintf("label %q {\n%s\n}\n", name, attributes)
	}
	testutil.WriteFile(t, filepath.Join(f.Dir, "npctl.hcl"), fmt.Sprintf("%s\nprovider %q %q {\nrate = 0\n%s\npool \"main\" {\n%s\n}\n}\n", labels, driver, provider, project, offers))
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
				k := &kill.Killer{}
				_, err := f.Run(t, k, plan.Options{Destroy: destroy})
				testutil.Must(t, err)
				if got := f.has(); !destroy && !slices.Equal(got, want) || destroy && len(got) > 0 {
					t.Fatalf("after a run without a kill the cluster has %q", got)
				}
				name := map[bool]string{false: "apply", true: "destroy"}[destroy]
				t.Logf("%s has %d points", name, k.Points())
				if least := map[bool]int{false: 8, true: 6}[destroy]; k.Points() < least {
					t.Errorf("%s has only %d points: the killer sees too little", name, k.Points())
				}
				for at := range k.Points() {
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
		f.MustRun(f.t, plan.Options{})
	}
	k := &kill.Killer{}
	k.Revive(at)
	_, err := f.Run(f.t, k, opt)
	where, dead := k.Died()
	if !dead { // the order and the number of calls of two nodes vary a little
		testutil.Must(f.t, err)
	} else if err == nil {
		f.t.Errorf("killed %s, and the run ended well", where)
	}
	f.MustRun(f.t, opt)
	if opt.Destroy {
		want = nil
	}
	if got := f.has(); !slices.Equal(got, want) {
		f.t.Errorf("killed %s: the cluster has %q, want %q", where, got, want)
	}
	if p := f.MustRun(f.t, opt); len(p.Steps) > 0 {
		f.t.Errorf("killed %s: a further plan has %d steps", where, len(p.Steps))
	}
	f.MustRun(f.t, plan.Options{Destroy: true})
	if left := f.has(); len(left) > 0 {
		f.t.Errorf("killed %s: a destroy leaves %q", where, left)
	}
}
