package watch_test

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/builders/exec"
	"github.com/npctl/npctl/config"
	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/openstack"
	"github.com/npctl/npctl/drivers/sandbox/sandboxcloud"
	"github.com/npctl/npctl/drivers/static"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/watch"
)

// labDriver is the openstack driver over an emulated OpenStack that outlives daemons.
type labDriver struct {
	clouds map[string]*sandboxcloud.Cloud
	open   *atomic.Int64 // open connections to the clouds
}

func (labDriver) Kind() string          { return "lab" }
func (labDriver) Schema() schema.Driver { return openstack.SharedSchema() }
func (d labDriver) Open(ctx context.Context, env drivers.Env, config cty.Value) (drivers.Cloud, error) {
	access := d.clouds[env.Provider].Access()
	cloud, err := openstack.Connect(ctx, env, openstack.Endpoint{AuthURL: access.AuthURL, Region: access.Region, Username: access.Username,
		Password: access.Password, Project: access.Project, Domain: access.Domain, Transport: d.clouds[env.Provider].Transport(),
		CloudName: env.Provider, Closed: func() error { d.open.Add(-1); return nil }}, config)
	if err == nil {
		d.open.Add(1)
	}
	return cloud, err
}

// lab is a configuration, a state file and emulated clouds in which daemons start and stop.
type lab struct {
	t      testing.TB
	dir    string
	driver labDriver
	ahead  atomic.Int64 // offset of the daemons' clocks, in nanoseconds

	around  func(http.RoundTripper) http.RoundTripper // wraps the calls of daemons, when set
	refresh time.Duration                             // of daemons
	log     *slog.Logger                              // of daemons, when set
	static  drivers.Driver                            // for static machines
	builder builders.Builder                          // of images
	tasks   []watch.Task                              // of daemons, when set
	told    *heard                                    // log records, when log writes to it
}

func (l *lab) now() time.Time { return time.Now().Add(time.Duration(l.ahead.Load())) }

// fleet has a cloud with an image, and static machines.
const fleet = `
npctl { images_dir = "images" }

diskimage "debian" {
  builder "exec" {
    command = ["sh", "-c", "printf image >\"$NPCTL_OUTPUT.raw\""]
    formats = ["raw"]
  }
}

label "small" { min_ready = 1 }
label "metal" {}

provider "lab" "one" {
  image_format = "raw"
  pool "main" {
    networks          = ["private"]
    host_key_checking = false
    max_servers       = 5
    label "small" {
      image  = diskimage.debian
      flavor = "small"
    }
  }
}

provider "static" "rack" {
  pool "main" {
    node "metal1" {
      labels            = ["metal"]
      host_key_checking = false
      slots             = 2
    }
  }
}
`

func newLab(t testing.TB, configuration string, options sandboxcloud.Options) *lab {
	t.Helper()
	l := &lab{t: t, dir: t.TempDir(), driver: labDriver{map[string]*sandboxcloud.Cloud{}, &atomic.Int64{}}, builder: &exec.Builder{}, static: static.New()}
	for _, name := range []string{"one", "two"} {
		cloud, err := sandboxcloud.Open(options)
		testutil.Must(t, err)
		t.Cleanup(func() { _ = cloud.Close() })
		l.driver.clouds[name] = cloud
	}
	l.write(configuration)
	return l
}

func (l *lab) write(configuration string) {
	l.t.Helper()
	testutil.WriteFile(l.t, filepath.Join(l.dir, "npctl.hcl"), configuration)
}

func (l *lab) drivers() map[string]drivers.Driver {
	return map[string]drivers.Driver{"lab": l.driver, "static": l.static}
}

func (l *lab) load(context.Context) (resources.Desired, error) {
	schemas := map[string]schema.Driver{}
	for kind, d := range l.drivers() {
		schemas[kind] = d.Schema()
	}
	loaded, diags := config.Load(config.Options{Path: l.dir, Drivers: schemas,
		Builders: map[string]schema.Block{"exec": (&exec.Builder{}).Schema()}, States: map[string]schema.Block{"bolt": bolt.Schema()}})
	if diags.HasErrors() {
		var b strings.Builder
		config.WriteDiagnostics(&b, diags, loaded.Files, false, 100)
		return resources.Desired{}, diags
	}
	return loaded.Desired, nil
}

// daemon starts a daemon and returns it with a function that stops it.
func (l *lab) daemon() (*watch.Daemon, func()) {
	d, stop := l.daemonWith(&life{})
	return d, func() { stop(true) }
}

// daemonWith starts a daemon with its own life. The returned function stops the daemon in an orderly way or kills it.
func (l *lab) daemonWith(life *life) (*watch.Daemon, func(orderly bool)) {
	l.t.Helper()
	desired, err := l.load(l.t.Context())
	testutil.Must(l.t, err)
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(l.dir, "npctl.db")})
	testutil.Must(l.t, err)
	transport := life.transport
	if l.around != nil {
		transport = func(inner http.RoundTripper) http.RoundTripper { return life.transport(l.around(inner)) }
	}
	e := reconcile.New(reconcile.Options{Desired: desired, Store: mortalStore{store, life}, Drivers: l.drivers(),
		Builders: map[string]builders.Builder{"exec": l.builder}, DataDir: filepath.Join(l.dir, "data"), WrapTransport: transport, Log: l.log, Now: l.now})
	d, err := watch.New(l.t.Context(), watch.Options{Engine: e, Load: l.load, Refresh: l.refresh, Tasks: l.tasks, Log: l.log})
	testutil.Must(l.t, err)
	ctx, stop := context.WithCancel(l.t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx, time.Minute) }()
	return d, func(orderly bool) {
		stop()
		if err := <-done; err != nil && orderly {
			l.t.Error(err)
		}
		_ = e.Close()
		_ = store.Close()
	}
}

func (l *lab) fulfilled(d *watch.Daemon, id string) *resources.Request {
	l.t.Helper()
	var r *resources.Request
	testutil.Await(l.t, "request "+id+" is answered", func() bool {
		var err error
		if r, err = d.Clients.Request(id); err != nil {
			l.t.Fatal(err)
		}
		return r.State == resources.StateFulfilled || r.State == resources.StateFailed
	})
	return r
}
