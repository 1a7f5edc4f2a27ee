package watch_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
)

// serves requests a node with the label, uses it and returns it.
func (l *lab) serves(d *watch.Daemon, label string) {
	l.t.Helper()
	r, err := d.Clients.CreateRequest(l.t.Context(), watch.NewRequest{Labels: []string{label}})
	testutil.Must(l.t, err)
	if got := l.fulfilled(d, r.ID); got.State != resources.StateFulfilled {
		l.t.Fatalf("request for %s is %s: %s", label, got.State, got.Error)
	}
	nodes, err := d.Clients.Take(l.t.Context(), r.ID, "me", 0)
	testutil.Must(l.t, err)
	if _, err := d.Clients.Return(l.t.Context(), nodes[0].ID); err != nil {
		l.t.Fatal(err)
	}
}

func TestConfigurationWithUnknownCloudNameIsRejected(t *testing.T) {
	for name, test := range map[string]struct{ old, new, want string }{
		"another flavor of an offer": {`flavor = "small"`, `flavor = "smal"`, `"smal"`},
		"another network of a pool":  {`["private"]`, `["privat"]`, `"privat"`},
		"another offer": {`label "metal" {}`, `label "metal" {}
label "large" {}
provider "lab" "two" {
  image_format = "raw"
  pool "main" {
    networks          = ["private"]
    host_key_checking = false
    label "large" {
      image  = diskimage.debian
      flavor = "larg"
    }
  }
}`, `"larg"`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, fleet, emulator.Options{})
				d, end := l.daemon()
				defer end()
				l.serves(d, "small")
				if !strings.Contains(fleet, test.old) {
					t.Fatalf("there is no %s", test.old)
				}
				l.write(strings.Replace(fleet, test.old, test.new, 1))
				if _, err := d.Reload(t.Context(), watch.ReloadOptions{}); err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("reload ends with %v, which does not name %s", err, test.want)
				}
				l.serves(d, "small")
			})
		})
	}
}

// silent is a cloud that stops answering until over is closed.
type silent struct {
	now  atomic.Bool
	over chan struct{}
}

func (s *silent) around(inner http.RoundTripper) http.RoundTripper {
	return testutil.RoundTripper(func(req *http.Request) (*http.Response, error) {
		if s.now.Load() {
			select {
			case <-req.Context().Done():
				return nil, req.Context().Err()
			case <-s.over:
			}
		}
		return inner.RoundTrip(req)
	})
}

// TestHangingCloudDelaysReloadBriefly: the reload accepts names that the cloud cannot verify in time, whether it
// hung from the start or hangs now.
func TestHangingCloudDelaysReloadBriefly(t *testing.T) {
	for name, fromStart := range map[string]bool{"from the start": true, "later": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &silent{over: make(chan struct{})}
				s.now.Store(fromStart)
				l := newLab(t, fleet, emulator.Options{})
				l.around = s.around
				d, end := l.daemon()
				defer end()
				if fromStart {
					synctest.Wait() // until the daemon waits for its answer
				} else {
					l.serves(d, "small")
				}
				s.now.Store(true)
				l.write(strings.Replace(fleet, `flavor = "small"`, `flavor = "large"`, 1))
				began := time.Now()
				if _, err := d.Reload(t.Context(), watch.ReloadOptions{}); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took < 9*time.Second || took > 11*time.Second {
					t.Errorf("the reload took %s", took)
				}
				l.serves(d, "metal")
				close(s.over)
				l.serves(d, "small")
				testutil.Await(l.t, "the new flavor is taken", func() bool {
					n := ready(d, "small")
					return n != nil && n.Resources.Cores == 8
				})
			})
		})
	}
}

// ready returns a ready node with the label.
func ready(d *watch.Daemon, label string) *resources.Node {
	for _, n := range d.Last().Observed.Records.Nodes {
		if n.State == resources.StateReady && n.Labels[0] == label {
			return n
		}
	}
	return nil
}

func TestMaxConcurrencyIsReloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited := func(most string) string {
			return strings.NewReplacer("min_ready = 1", "min_ready = 4", `provider "lab" "one" {`, `provider "lab" "one" {
  max_concurrency = `+most).Replace(fleet)
		}
		l := newLab(t, limited("1"), emulator.Options{BuildTime: 10 * time.Minute})
		d, end := l.daemon()
		defer end()
		created := func() int { return l.driver.Clouds["one"].Calls()["server.create"] }
		testutil.Await(l.t, "a launch is under way", func() bool { return created() > 0 })
		time.Sleep(time.Minute)
		if n := created(); n != 1 {
			t.Fatalf("%d servers are being made at a time, want 1", n)
		}
		l.write(limited("3"))
		if _, err := d.Reload(t.Context(), watch.ReloadOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if n := created(); n != 3 {
			t.Errorf("with max_concurrency = 3, %d servers are being made at a time", n)
		}
	})
}

func TestReloadRetriesFailedStepsImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fleet, emulator.Options{})
		cloud := l.driver.Clouds["one"]
		testutil.Must(t, cloud.SetFaults(emulator.Fault{Operation: "server.create", Action: emulator.Answer, Status: 400, Times: 1000}))
		d, end := l.daemon()
		defer end()
		failures := func() int {
			if f := d.Last().Observed.LaunchFailures[plan.ProviderAddress("one")]; f != nil {
				return f.Count
			}
			return 0
		}
		time.Sleep(time.Hour)
		before := failures()
		for failures() == before {
			time.Sleep(time.Second)
		}
		if err := cloud.SetFaults(); err != nil { // an operator has fixed something that npctl does not know of
			t.Fatal(err)
		}
		refused := cloud.Calls()["server.create"]
		time.Sleep(time.Minute)
		if n := cloud.Calls()["server.create"]; n != refused {
			t.Fatalf("what has failed for an hour is tried again within a minute: %d calls, %d before", n, refused)
		}
		if _, err := d.Reload(t.Context(), watch.ReloadOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if n := cloud.Calls()["server.create"]; n == refused {
			t.Error("it is not tried again after a reload either")
		}
	})
}

// onError is a log handler that calls back at the first error.
type onError struct {
	slog.Handler
	once *sync.Once
	call func()
}

func (onError) Enabled(context.Context, slog.Level) bool { return true }

func (h onError) Handle(_ context.Context, r slog.Record) error {
	if r.Level == slog.LevelError {
		h.once.Do(h.call)
	}
	return nil
}

// TestPassWithOldConfigurationIgnoresNewRequests: while a pass logs that it cannot read the images directory,
// the configuration is reloaded, and a client requests a label that only the new configuration has.
func TestPassWithOldConfigurationIgnoresNewRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fleet, emulator.Options{})
		var d *watch.Daemon
		asked := make(chan string, 1)
		images := filepath.Join(l.dir, "images")
		l.log = slog.New(onError{slog.DiscardHandler, &sync.Once{}, func() {
			defer close(asked)
			if err := os.Remove(images); err != nil {
				t.Error(err)
				return
			}
			l.write(strings.ReplaceAll(fleet, `"metal"`, `"iron"`))
			if _, err := d.Reload(t.Context(), watch.ReloadOptions{AllowDestroy: true}); err != nil {
				t.Error(err)
				return
			}
			r, err := d.Clients.CreateRequest(t.Context(), watch.NewRequest{Labels: []string{"iron"}})
			if err != nil {
				t.Error(err)
				return
			}
			asked <- r.ID
		}})
		var end func()
		d, end = l.daemon()
		defer end()
		l.serves(d, "metal")
		testutil.Must(t, os.RemoveAll(images))
		if err := os.WriteFile(images, nil, 0o600); err != nil { // replaces the directory
			t.Fatal(err)
		}
		id, ok := <-asked
		if !ok {
			t.FailNow()
		}
		if r := l.fulfilled(d, id); r.State != resources.StateFulfilled {
			t.Errorf("the request is %s: %s", r.State, r.Error)
		}
	})
}

func TestReloadRetriesFailedUploadsImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fleet, emulator.Options{})
		cloud := l.driver.Clouds["one"]
		testutil.Must(t, cloud.SetFaults(emulator.Fault{Operation: "image.create", Action: emulator.Answer, Status: 400, Times: 1000}))
		d, end := l.daemon()
		defer end()
		asked := func() int { return cloud.Calls()["image.create"] }
		testutil.Await(l.t, "an upload is refused", func() bool { return asked() > 0 })
		refused := asked()
		time.Sleep(10 * time.Minute)
		if n := asked(); n != refused {
			t.Fatalf("what was refused is tried again within ten minutes: %d calls, %d before", n, refused)
		}
		p, err := d.Reload(t.Context(), watch.ReloadOptions{})
		testutil.Must(t, err)
		if !slices.ContainsFunc(p.Steps, func(s plan.Step) bool { return s.Kind == plan.KindUpload }) {
			t.Errorf("whoever reloads is not told that it is tried again: %+v", p.Steps)
		}
		time.Sleep(10 * time.Second)
		if n := asked(); n == refused {
			t.Error("it is not tried again after a reload")
		}
		again := asked()
		time.Sleep(10 * time.Minute)
		if n := asked(); n != again {
			t.Errorf("after one more refusal it is tried again within ten minutes: %d calls, %d before", n, again)
		}
	})
}

// takes reloads the daemon with another configuration.
func (l *lab) takes(d *watch.Daemon, configuration string) {
	l.t.Helper()
	l.write(configuration)
	if _, err := d.Reload(l.t.Context(), watch.ReloadOptions{AllowDestroy: true}); err != nil {
		l.t.Fatal(err)
	}
}

// impatient returns the fleet with another api_timeout, which changes the provider's block and no node.
func impatient(minutes int) string {
	return strings.Replace(fleet, `provider "lab" "one" {`, fmt.Sprintf("provider \"lab\" \"one\" {\n  api_timeout = \"%dm\"", minutes), 1)
}

func TestConnectionsOfOldConfigurationsAreClosed(t *testing.T) {
	for name, test := range map[string]struct {
		change func(l *lab, d *watch.Daemon)
		left   int64
	}{
		"that were in force": {func(l *lab, d *watch.Daemon) {
			for n := range 5 {
				l.takes(d, impatient(n+2))
				time.Sleep(time.Minute)
			}
		}, 1},
		"that were refused": {func(l *lab, d *watch.Daemon) {
			for n := range 5 {
				l.write(strings.Replace(impatient(n+2), `flavor = "small"`, `flavor = "smal"`, 1))
				if _, err := d.Reload(l.t.Context(), watch.ReloadOptions{}); err == nil {
					l.t.Fatal("a flavor that the cloud does not know is taken")
				}
			}
		}, 1},
		"whose provider is gone": {func(l *lab, d *watch.Daemon) {
			before, after, _ := strings.Cut(fleet, `provider "lab"`)
			_, others, _ := strings.Cut(after, `provider "static"`)
			l.takes(d, before+`provider "static"`+others)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, impatient(1), emulator.Options{})
				d, end := l.daemon()
				defer end()
				l.serves(d, "small")
				test.change(l, d)
				time.Sleep(10 * time.Minute)
				l.serves(d, "metal")
				if n := l.driver.open.Load(); n != test.left {
					t.Errorf("%d connections are open, want %d", n, test.left)
				}
			})
		})
	}
}

func TestConnectionStaysOpenForRunningSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, impatient(1), emulator.Options{BuildTime: 30 * time.Minute})
		d, end := l.daemon()
		defer end()
		testutil.Await(l.t, "a launch is under way", func() bool { return l.driver.Clouds["one"].Calls()["server.create"] > 0 })
		l.takes(d, impatient(2))
		time.Sleep(20 * time.Minute)
		if n := l.driver.open.Load(); n != 2 {
			t.Errorf("during the launch %d connections are open, want 2", n)
		}
		time.Sleep(20 * time.Minute)
		if ready(d, "small") == nil {
			t.Error("there is no node")
		}
		if n := l.driver.open.Load(); n != 1 {
			t.Errorf("after the launch %d connections are open, want 1", n)
		}
	})
}
