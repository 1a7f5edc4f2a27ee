package watch_test

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/builders/exec"
	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/metastatic"
	"github.com/npctl/npctl/drivers/openstack"
	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/drivers/static"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/test/cloudlab"
	"github.com/npctl/npctl/watch"
)

// labDriver counts the open connections to the clouds.
type labDriver struct {
	cloudlab.Driver
	open *atomic.Int64
}

func newLabDriver(t testing.TB, options emulator.Options) labDriver {
	d := labDriver{cloudlab.New(t, options, "one", "two"), &atomic.Int64{}}
	d.Connecting = func(_ string, at *openstack.Endpoint) {
		at.Closed = func() error { d.open.Add(-1); return nil }
	}
	return d
}

func (d labDriver) Open(ctx context.Context, env drivers.Env, config cty.Value) (drivers.Cloud, error) {
	cloud, err := d.Driver.Open(ctx, env, config)
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
	listing time.Duration                             // MaxListingAge of daemons
	log     *slog.Logger                              // of daemons, when set
	static  drivers.Driver                            // for static machines
	builder builders.Builder                          // of images
	tasks   []watch.Task                              // of daemons, when set
	told    *heard                                    // log records, when log writes to it
	store   *bolt.Store                               // of the newest daemon
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

func newLab(t testing.TB, configuration string, options emulator.Options) *lab {
	t.Helper()
	l := &lab{t: t, dir: t.TempDir(), driver: newLabDriver(t, options), builder: &exec.Builder{}, static: static.New()}
	l.write(configuration)
	return l
}

func (l *lab) write(configuration string) {
	l.t.Helper()
	testutil.WriteFile(l.t, filepath.Join(l.dir, "npctl.hcl"), configuration)
}

func (l *lab) drivers() map[string]drivers.Driver {
	return map[string]drivers.Driver{"lab": l.driver, "static": l.static, "metastatic": metastatic.New()}
}

func (l *lab) load(context.Context) (resources.Desired, error) {
	return cloudlab.Load(l.dir, l.drivers())
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
	l.store = store
	transport := life.transport
	if l.around != nil {
		transport = func(inner http.RoundTripper) http.RoundTripper { return life.transport(l.around(inner)) }
	}
	e := reconcile.New(reconcile.Options{Desired: desired, Store: mortalStore{store, life}, Drivers: l.drivers(),
		Builders: map[string]builders.Builder{"exec": l.builder}, DataDir: filepath.Join(l.dir, "data"), WrapTransport: transport, Log: l.log, Now: l.now})
	d, err := watch.New(l.t.Context(), watch.Options{Engine: e, Load: l.load, Refresh: l.refresh, MaxListingAge: l.listing, Tasks: l.tasks, Log: l.log})
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
