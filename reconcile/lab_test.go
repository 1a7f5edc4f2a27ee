package reconcile_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/builders/exec"
	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/openstack"
	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/test/cloudlab"
	"github.com/npctl/npctl/test/kill"
)

// labDriver records the requests to the clouds, and moves providers to other clouds.
type labDriver struct {
	cloudlab.Driver
	moved map[string]bool                      // the provider block names another cloud now
	asked *asked                               // if set, records the requests to the clouds
	wrap  func(*openstack.Cloud) drivers.Cloud // may be nil
}

func newLabDriver(t testing.TB, options emulator.Options) labDriver {
	d := labDriver{Driver: cloudlab.New(t, options, "one", "two"), moved: map[string]bool{}}
	d.Connecting = func(provider string, at *openstack.Endpoint) {
		if d.moved[provider] {
			at.AuthURL = strings.Replace(at.AuthURL, "emulator.", "elsewhere.", 1)
		}
	}
	return d
}

func (d labDriver) Open(ctx context.Context, env drivers.Env, config cty.Value) (drivers.Cloud, error) {
	cloud, err := d.Driver.Open(ctx, env, config)
	if inner, ok := cloud.(*openstack.Cloud); ok && d.wrap != nil {
		return d.wrap(inner), err
	}
	if inner, ok := cloud.(*openstack.Cloud); ok && d.asked != nil {
		return &askedCloud{inner, env.Provider, d.asked}, err
	}
	return cloud, err
}

// lab is a configuration, a state file and emulated clouds. Its engines start and end as processes do.
type lab struct {
	t      testing.TB
	dir    string
	config string
	driver labDriver
	kill   *kill.Killer
	shared *claimedStore // if set, other processes use the store too
	events func(reconcile.Event)

	requests atomic.Int64 // to all clouds
	supplies int          // that run has compared with the least number that the plan announced
}

// twoClouds has two clouds with two labels of one image, and a static node.
const twoClouds = `
npctl {
  images_dir = "images"
  leak_age   = "30s"
}

diskimage "debian" {
  builder "exec" {
    command = ["sh", "-c", "echo built >>builds; printf image >\"$NPCTL_OUTPUT.raw\""]
    formats = ["raw"]
  }
}

label "small" { min_ready = 2 }
label "large" { min_ready = 1 }

provider "lab" "one" {
  image_format = "raw"
  pool "main" {
    networks          = ["private"]
    host_key_checking = false
    label "small" {
      image             = diskimage.debian
      flavor            = "small"
      auto_floating_ip  = true
    }
  }
}

provider "lab" "two" {
  image_format = "raw"
  pool "main" {
    networks          = ["private"]
    host_key_checking = false
    label "large" {
      image  = diskimage.debian
      flavor = "large"
    }
  }
}

`

func newLab(t testing.TB, config string, options emulator.Options) *lab {
	t.Helper()
	return &lab{t: t, dir: t.TempDir(), config: config, driver: newLabDriver(t, options), kill: &kill.Killer{}}
}

// engine starts a new engine, as a process does, and returns the function that ends it.
func (l *lab) engine() (*reconcile.Engine, func()) {
	l.t.Helper()
	testutil.WriteFile(l.t, filepath.Join(l.dir, "npctl.hcl"), l.config)
	kinds := map[string]drivers.Driver{"lab": l.driver}
	desired, err := cloudlab.Load(l.dir, kinds)
	testutil.Must(l.t, err)
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(l.dir, "npctl.db")})
	testutil.Must(l.t, err)
	var used state.Store = kill.Store{Store: store, Killer: l.kill}
	if l.shared != nil {
		l.shared.Store, l.shared.Identified, used = used, store, l.shared
	}
	e := reconcile.New(reconcile.Options{Desired: desired, Store: used, Drivers: kinds, Builders: map[string]builders.Builder{"exec": &exec.Builder{}},
		DataDir: filepath.Join(l.dir, "data"), WrapTransport: l.transport, Report: l.events})
	return e, func() {
		_ = e.Close()
		_ = store.Close()
	}
}

// run executes one `npctl apply`. If each step succeeds, as the least numbers of ready nodes and uploads assume, it verifies them.
func (l *lab) run(ctx context.Context, opt plan.Options) (plan.Plan, reconcile.Result, error) {
	l.t.Helper()
	e, end := l.engine()
	defer end()
	store, ok := e.Store.(kill.Store)
	if !ok { // other processes change the records too
		return kill.Apply(ctx, e, opt)
	}
	ready := watchReady(l.t, store)
	e.Store = ready
	p, result, err := kill.Apply(ctx, e, opt)
	if err == nil {
		l.supplies += ready.check(l.t, p)
	}
	return p, result, err
}

// plan computes a plan without executing it.
func (l *lab) plan(opt plan.Options) plan.Plan {
	l.t.Helper()
	e, end := l.engine()
	defer end()
	seen, err := e.Observe(l.t.Context(), true)
	testutil.Must(l.t, err)
	return plan.Compute(e.Desired, seen, opt)
}

func (l *lab) records(kind resources.Kind) []resources.Record {
	l.t.Helper()
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(l.dir, "npctl.db")})
	testutil.Must(l.t, err)
	defer store.Close() //nolint:errcheck // a test's
	entries, err := store.List(l.t.Context(), kind)
	testutil.Must(l.t, err)
	records := make([]resources.Record, len(entries))
	for i, entry := range entries {
		records[i] = entry.Record
	}
	return records
}

// text formats a plan with one step per line.
func text(p plan.Plan) string {
	var b strings.Builder
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "%s %s: %s\n", s.Action, s.Address, s.Reason)
	}
	for _, q := range p.Problems {
		fmt.Fprintf(&b, "problem %s: %s\n", q.Address, q.Text)
	}
	return b.String()
}

func (l *lab) transport(inner http.RoundTripper) http.RoundTripper {
	counted := testutil.RoundTripper(func(r *http.Request) (*http.Response, error) {
		l.requests.Add(1)
		return inner.RoundTrip(r)
	})
	return l.kill.Transport(counted, changes)
}

// changes describes a changing call of OpenStack.
func changes(r *http.Request) string {
	if r.Method == http.MethodGet || strings.HasSuffix(r.URL.Path, "/auth/tokens") {
		return ""
	}
	return r.Method + " " + r.URL.Path
}

func (l *lab) nodes() []*resources.Node {
	var nodes []*resources.Node
	for _, r := range l.records(resources.KindNode) {
		nodes = append(nodes, r.(*resources.Node))
	}
	return nodes
}
