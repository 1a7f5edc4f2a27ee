package watch_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/builders/exec"
	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/watch"
)

// heard collects the log output, steps, taken requests and passes of a daemon.
type heard struct {
	mu     sync.Mutex
	log    bytes.Buffer
	steps  []string
	taken  []string
	passes int
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.log.Write(p)
}

func (h *heard) logged(text string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Count(h.log.String(), text)
}

// overheard starts a daemon and collects all its log records.
func (l *lab) overheard(stall time.Duration, wrap func(http.RoundTripper) http.RoundTripper) (d *watch.Daemon, h *heard, end func()) {
	l.t.Helper()
	desired, err := l.load(l.t.Context())
	testutil.Must(l.t, err)
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(l.dir, "npctl.db")})
	testutil.Must(l.t, err)
	h = &heard{}
	e := reconcile.New(reconcile.Options{Desired: desired, Store: store, Drivers: l.drivers(), DataDir: filepath.Join(l.dir, "data"),
		Builders: map[string]builders.Builder{"exec": &exec.Builder{}}, WrapTransport: wrap})
	d, err = watch.New(l.t.Context(), watch.Options{Engine: e, Log: slog.New(slog.NewTextHandler(h, nil)), Stall: stall,
		OnPass: func(p watch.Pass) {
			if p.Observed.Installation == "" {
				l.t.Error("a pass does not know the installation, which created objects name as their owner")
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			h.passes++
		},
		OnStep: func(e reconcile.Event) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.steps = append(h.steps, string(e.Step.Action)+" "+string(e.Kind))
		},
		OnTaken: func(r *resources.Request, nodes []*resources.Node) {
			h.mu.Lock()
			defer h.mu.Unlock()
			for _, n := range nodes {
				h.taken = append(h.taken, r.ID+" "+n.ID+" "+string(n.State))
			}
		}})
	testutil.Must(l.t, err)
	ctx, stop := context.WithCancel(l.t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx, time.Minute) }()
	return d, h, func() {
		stop()
		if err := <-done; err != nil {
			l.t.Error(err)
		}
		_ = e.Close()
		_ = store.Close()
	}
}

// rack has one machine.
const rack = `
npctl { images_dir = "images" }
label "metal" {}
provider "static" "rack" {
  pool "main" {
    node "metal1" {
      labels            = ["metal"]
      host_key_checking = false
    }
  }
}
`

func TestStallIsLoggedPeriodicallyUntilItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, rack, emulator.Options{})
		d, h, end := l.overheard(10*time.Minute, nil)
		defer end()
		first := l.request(d)
		l.fulfilled(d, first.ID)
		nodes, err := d.Clients.Take(t.Context(), first.ID, "me", 0)
		testutil.Must(t, err)
		time.Sleep(time.Hour)
		if got := d.Stalled(); got != 0 {
			t.Errorf("stalled for %s, though nobody waits", got)
		}
		second := l.request(d)
		time.Sleep(9 * time.Minute)
		if got := d.Stalled(); got != 0 {
			t.Errorf("stalled for %s after 9 minutes, want nothing before 10", got)
		}
		time.Sleep(2 * time.Minute)
		if got := d.Stalled(); got < 10*time.Minute || got > 12*time.Minute {
			t.Errorf("stalled for %s after 11 minutes", got)
		}
		const complaint = "requests wait and nothing is launched or served"
		if n := h.logged(complaint); n != 1 {
			t.Errorf("complained %d times after 11 minutes, want once", n)
		}
		if n := h.logged("all machines with label metal are taken"); n == 0 {
			t.Errorf("the log does not say why:\n%s", h.log.String())
		}
		events := d.Journal.Since(0, "request/"+second.ID)
		if last := events[len(events)-1]; last.Code != "stalled" || !strings.Contains(last.Text, "taken") {
			t.Errorf("newest event of the request is %+v", last)
		}
		time.Sleep(20 * time.Minute)
		if n := h.logged(complaint); n != 3 {
			t.Errorf("complained %d times after 31 minutes, want 3: at 10, 20 and 30", n)
		}
		if _, err := d.Clients.Return(t.Context(), nodes[0].ID); err != nil {
			t.Fatal(err)
		}
		l.fulfilled(d, second.ID)
		time.Sleep(time.Minute)
		if got := d.Stalled(); got != 0 || h.logged("requests are served again") != 1 {
			t.Errorf("stalled for %s, told %d times that it is over", got, h.logged("requests are served again"))
		}
	})
}

func (l *lab) request(d *watch.Daemon) *resources.Request {
	l.t.Helper()
	r, err := d.Clients.CreateRequest(l.t.Context(), watch.NewRequest{Labels: []string{"metal"}, Requestor: "me"})
	testutil.Must(l.t, err)
	return r
}

func TestOtherProcessesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, rack, emulator.Options{})
		d, h, end := l.overheard(0, nil)
		r := l.request(d)
		l.fulfilled(d, r.ID)
		nodes, err := d.Clients.Take(t.Context(), r.ID, "me", 0)
		testutil.Must(t, err)
		time.Sleep(time.Minute)
		if age := time.Since(d.LastPassEnd()); age > 10*time.Second {
			t.Errorf("the newest pass was %s ago", age)
		}
		if unseen := d.ProvidersNotListed(); len(unseen) > 0 {
			t.Errorf("nobody has looked at %s after a minute", unseen)
		}
		end()
		if want := r.ID + " " + nodes[0].ID + " in-use"; len(h.taken) != 1 || h.taken[0] != want {
			t.Errorf("taken are %q, want %q", h.taken, want)
		}
		if !strings.Contains(strings.Join(h.steps, ","), string(plan.ActionServe)+" done") || h.passes < 10 {
			t.Errorf("%d passes with steps %q", h.passes, h.steps)
		}
		for _, line := range []string{`msg="request created" what="request for [metal] by me" request=` + r.ID + " label=metal",
			`msg="node taken" what="taken by me" node=` + nodes[0].ID + " request=" + r.ID} {
			if h.logged(line) != 1 {
				t.Errorf("the log lacks %s:\n%s", line, h.log.String())
			}
		}
	})
}
