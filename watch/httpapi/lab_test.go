package httpapi_test

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/builders/exec"
	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/drivers/static"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/test/cloudlab"
	"github.com/npctl/npctl/watch"
	"github.com/npctl/npctl/watch/httpapi"
	"github.com/npctl/npctl/watch/httpapi/client"
)

// secret is a sensitive variable of every lab. It must not occur in any output of the API.
const secret = "correct-horse-battery-staple"

// fleet is a configuration with a cloud, an image and static machines.
const fleet = `
npctl { images_dir = "images" }

variable "password" {
  default   = "` + secret + `"
  sensitive = true
}

diskimage "debian" {
  builder "exec" {
    command = ["sh", "-c", "printf image >\"$NPCTL_OUTPUT.raw\""]
    formats = ["raw"]
    env     = { PASSWORD = var.password }
  }
}

label "small" {}
label "metal" {}

provider "lab" "one" {
  image_format = "raw"
  pool "main" {
    networks          = ["private"]
    host_key_checking = false
    max_servers       = 3
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

// lab is a daemon with its API on a unix socket.
type lab struct {
	t      testing.TB
	dir    string
	driver cloudlab.Driver
	daemon *watch.Daemon
	server *httpapi.Server
	store  *bolt.Store
	socket string
	*client.Client
	guesses *tally
	shadow  bool                        // the daemon is a shadow
	loading func(context.Context) error // called before the configuration is read; may be nil
}

// tally counts by name.
type tally struct {
	mu sync.Mutex
	by map[string]int // guarded by mu
}

func (c *tally) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = map[string]int{}
	}
	c.by[what]++
}

func (c *tally) all() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.by)
}

// newLab starts a daemon that logs to log.
func newLab(t testing.TB, configuration string, log io.Writer) *lab {
	t.Helper()
	return newLabWith(t, configuration, log, false)
}

func newLabWith(t testing.TB, configuration string, log io.Writer, shadow bool) *lab {
	t.Helper()
	dir, err := os.MkdirTemp("", "npctl") // the path of t.TempDir is too long for a socket
	testutil.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l := &lab{t: t, dir: dir, driver: cloudlab.New(t, emulator.Options{}, "one", "idle"), socket: filepath.Join(dir, "npctl.db.sock"), shadow: shadow}
	l.write(configuration)
	l.start(log)
	return l
}

func (l *lab) write(configuration string) {
	l.t.Helper()
	testutil.WriteFile(l.t, filepath.Join(l.dir, "npctl.hcl"), configuration)
}

func (l *lab) drivers() map[string]drivers.Driver {
	return map[string]drivers.Driver{"lab": l.driver, "static": static.New()}
}

func (l *lab) load(ctx context.Context) (resources.Desired, error) {
	if l.loading != nil {
		if err := l.loading(ctx); err != nil {
			return resources.Desired{}, err
		}
	}
	return cloudlab.Load(l.dir, l.drivers())
}

func (l *lab) start(log io.Writer) {
	t := l.t
	t.Helper()
	if log == nil {
		log = io.Discard
	}
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	desired, err := l.load(t.Context())
	testutil.Must(t, err)
	path := filepath.Join(l.dir, "npctl.db")
	if l.store, err = bolt.Open(bolt.Options{Path: path}); err != nil {
		t.Fatal(err)
	}
	var store state.Store = l.store
	if l.shadow {
		store = meeting{l.store}
	}
	engine := reconcile.New(reconcile.Options{Desired: desired, Store: store, Drivers: l.drivers(), Log: logger,
		Builders: map[string]builders.Builder{"exec": &exec.Builder{}}, DataDir: filepath.Join(l.dir, "data")})
	if l.daemon, err = watch.New(t.Context(), watch.Options{Engine: engine, Load: l.load, Shadow: l.shadow, Log: logger, Refresh: 200 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	tokens := filepath.Join(l.dir, "tokens")
	testutil.WriteFile(t, tokens, "grafana read-only "+readToken+"\nzuul full "+fullToken+"\n")
	known, err := httpapi.ReadTokens(tokens, logger)
	testutil.Must(t, err)
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "npctl_up 1\n") })
	l.guesses = &tally{}
	l.server = httpapi.New(l.daemon, httpapi.Options{Version: "1.2.3", State: path, Log: logger, Tokens: known, Metrics: metrics, InvalidToken: l.guesses.add})
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- l.daemon.Run(ctx, time.Minute) }()
	listener, err := httpapi.ListenUnix(l.socket, 0o600)
	testutil.Must(t, err)
	endServing := l.serve(listener)
	t.Cleanup(func() {
		stop()
		if err := <-ran; err != nil {
			t.Errorf("daemon: %v", err)
		}
		endServing()
		_ = engine.Close()
		_ = l.store.Close()
	})
	if l.Client, err = client.New(client.Options{Socket: l.socket, Agent: "npctl/test"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
}

// serve serves a further listener and returns a function that stops it.
func (l *lab) serve(listener net.Listener) (end func()) { return l.serveBy(l.server, listener) }

func (l *lab) serveBy(server *httpapi.Server, listener net.Listener) (end func()) {
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }()
	return func() {
		stop()
		if err := <-served; err != nil {
			l.t.Errorf("serve: %v", err)
		}
	}
}

const (
	readToken = "look-but-do-not-touch-0001"
	fullToken = "do-whatever-you-like-00001"
)

// await waits until so returns true.
func (l *lab) await(what string, so func() bool) {
	l.t.Helper()
	testutil.Await(l.t, what, so)
}

// raw sends a request without a client and returns the status, the headers and the body.
func (l *lab) raw(method, path, body string, header ...string) (int, http.Header, string) {
	l.t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", l.socket)
	}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(l.t.Context(), method, "http://npctl"+path, strings.NewReader(body))
	testutil.Must(l.t, err)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := transport.RoundTrip(request)
	testutil.Must(l.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	testutil.Must(l.t, err)
	return response.StatusCode, response.Header, string(text)
}
