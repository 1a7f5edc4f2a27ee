package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/coreos/go-systemd/v22/activation"

	"github.com/npctl/npctl/internal/connlimit"
	"github.com/npctl/npctl/watch/httpapi/client"
	"github.com/npctl/npctl/watch/nodepoolapi"
)

// metricsSocket is the FileDescriptorName of a socket unit for metrics. Every other socket serves the API.
const metricsSocket = "metrics"

// Limits of listeners that do not authenticate their clients.
const (
	openConnections      = 256
	openConnectionsOfOne = 32 // per client address
	openHeaderTime       = 5 * time.Second
	openAnswerTime       = 30 * time.Second
	openHeaderSize       = 8 << 10
	openEndTime          = 2 * time.Second
	aliveWithin          = time.Minute // since the last pass
)

// listeners holds all listeners in the order of opening.
type listeners struct {
	servers []server
	closers []func()
}

// server serves one listener until ctx is done.
type server struct {
	address string
	serve   func(ctx context.Context) error
}

func (f *listeners) addresses() (all []string) {
	for _, s := range f.servers {
		all = append(all, s.address)
	}
	return all
}

// close reverses bind. It ignores the errors of listeners that are already closed.
func (f *listeners) close() {
	for i := len(f.closers) - 1; i >= 0; i-- {
		f.closers[i]()
	}
}

func (f *listeners) add(l net.Listener, serve func(context.Context, net.Listener) error) {
	f.closers = append(f.closers, func() { _ = l.Close() })
	f.servers = append(f.servers, server{l.Addr().Network() + "://" + l.Addr().String(),
		func(ctx context.Context) error { return serve(ctx, l) }})
}

// bind opens all configured listeners.
func (w *service) bind(ctx context.Context) (*listeners, error) {
	f := &listeners{}
	if err := w.bindAll(ctx, f); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// bindAll adopts the sockets of systemd and opens those of the options.
func (w *service) bindAll(ctx context.Context, f *listeners) error {
	api, err := w.newAPI()
	if err != nil {
		return err
	}
	local, err := w.bindActivated(f, api)
	if err != nil {
		return err
	}
	if !local {
		if err := w.bindSocket(f, api); err != nil {
			return err
		}
	}
	if err := w.bindTCP(ctx, f, api); err != nil {
		return err
	}
	if err := bindOpen(ctx, f, w.metricsListen, w.serveMetrics); err != nil {
		return hint(fmt.Errorf("serve metrics: %w", err), "-metrics-listen needs an address of this machine and a free port, such as 127.0.0.1:9107")
	}
	if err := bindOpen(ctx, f, w.nodepoolListen, w.serveNodepool); err != nil {
		return hint(fmt.Errorf("serve Nodepool's endpoints: %w", err), "-nodepool-listen needs an address of this machine and a free port, such as 127.0.0.1:8005")
	}
	return nil
}

// bindOpen opens a listener without authentication, unless the address is empty.
func bindOpen(ctx context.Context, f *listeners, address string, serve func(context.Context, net.Listener) error) error {
	if address == "" {
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	f.add(connlimit.Listen(l, openConnections, openConnectionsOfOne), serve)
	return nil
}

// bindActivated adopts the sockets that systemd opened. It reports whether they include a unix socket for the API.
func (w *service) bindActivated(f *listeners, api api) (local bool, err error) {
	given, err := activation.ListenersWithNames()
	if err != nil {
		return false, fmt.Errorf("take the sockets of systemd: %w", err)
	}
	for name, listeners := range given {
		for _, l := range listeners {
			switch {
			case name == metricsSocket:
				f.add(connlimit.Listen(l, openConnections, openConnectionsOfOne), w.serveMetrics)
			case l.Addr().Network() == "unix":
				local = true
				f.add(l, api.Serve)
			default:
				return false, errors.Join(l.Close(), fmt.Errorf("systemd gives a socket %s at %s: only unix sockets, and one named %s, are served", name,
					l.Addr(), metricsSocket))
			}
		}
	}
	return local, nil
}

// serveMetrics serves /metrics and the health checks until ctx is done.
func (w *service) serveMetrics(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", w.metrics.Handler())
	mux.HandleFunc("GET /livez", w.livez)
	mux.HandleFunc("GET /readyz", w.readyz)
	return w.serveOpen(ctx, l, mux)
}

// serveNodepool serves the web endpoints of Nodepool until ctx is done.
func (w *service) serveNodepool(ctx context.Context, l net.Listener) error {
	return w.serveOpen(ctx, l, nodepoolapi.New(w.daemon))
}

// serveOpen serves a handler without authentication until ctx is done.
func (w *service) serveOpen(ctx context.Context, l net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: openHeaderTime, ReadTimeout: openHeaderTime, WriteTimeout: openAnswerTime,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: openHeaderSize, ErrorLog: slog.NewLogLogger(w.log.Handler(), slog.LevelDebug)}
	return connlimit.Serve(ctx, server, l, openEndTime)
}

// livez reports whether passes complete.
func (w *service) livez(answer http.ResponseWriter, _ *http.Request) {
	if beat := w.daemon.LastPassEnd(); !beat.IsZero() && time.Since(beat) > aliveWithin {
		http.Error(answer, "no pass since "+beat.UTC().Format(time.RFC3339), http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(answer, "ok")
}

// readyz reports whether the daemon is ready.
func (w *service) readyz(answer http.ResponseWriter, _ *http.Request) {
	if why := w.daemon.NotReady(); why != "" {
		http.Error(answer, why, http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(answer, "ok")
}

// mode parses -socket-mode.
func (c *watchCommand) mode() (fs.FileMode, error) {
	mode, err := strconv.ParseUint(c.socketMode, 8, 9)
	if err != nil || mode&0o007 != 0 || mode&0o600 != 0o600 {
		return 0, hint(fmt.Errorf("option -socket-mode: %q is not a mode for a socket", c.socketMode),
			"write 0600 for the user of npctl, or 0660 for its group too; every client of the socket may do everything")
	}
	return fs.FileMode(mode), nil
}

// ownSocket returns the path of the socket to create. link creates a symbolic link at the default path, where commands
// find the socket, if -socket names another path.
func (c *watchCommand) ownSocket() (path string, link func() (remove func(), err error), err error) {
	usual := client.SocketPath(c.place.File, c.lookupEnv)
	if err := removeLink(usual); err != nil {
		return "", nil, err
	}
	none := func() (func(), error) { return func() {}, nil }
	if c.socket == "" {
		return usual, none, nil
	}
	path, err = filepath.Abs(c.socket)
	if err != nil || path == usual {
		return path, none, err
	}
	return path, func() (func(), error) {
		if err := os.MkdirAll(filepath.Dir(usual), 0o700); err != nil {
			return nil, fmt.Errorf("link to the socket: %w", err)
		}
		if err := os.Symlink(path, usual); err != nil {
			return nil, fmt.Errorf("link to the socket: %w", err)
		}
		return func() { _ = removeLink(usual) }, nil // the next npctl watch removes it too
	}, nil
}

// removeLink removes the link of a killed npctl watch. This process holds the lock of the state, so no other process
// uses the link.
func removeLink(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink == 0:
		return nil
	default:
		return os.Remove(path)
	}
}
