package openstack

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/npctl/npctl/drivers"
)

// Limits of single HTTP requests. They are a last resort: the decorators of package drivers end calls earlier.
const (
	requestLimit = 2 * time.Minute
	stallLimit   = 2 * time.Minute  // of an image transfer without progress
	answerLimit  = 30 * time.Minute // of Glance, after the last byte of an image
)

// newTransport returns the transport to the cloud: the network or the caller's transport, with wrappers for tests,
// limits and logging.
func (e entry) newTransport(wrap func(http.RoundTripper) http.RoundTripper, log *slog.Logger) http.RoundTripper {
	base, closeIdle := e.transport, func() {}
	if base == nil {
		network := http.DefaultTransport.(*http.Transport).Clone()
		network.DialContext = (&net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}).DialContext
		network.TLSHandshakeTimeout = 15 * time.Second
		network.MaxIdleConnsPerHost = 16
		network.IdleConnTimeout = 30 * time.Second // below the 60 s after which many API servers close connections
		network.TLSClientConfig = e.tls
		network.Protocols = new(http.Protocols)
		network.Protocols.SetHTTP1(true) // HTTP/2 uploads are slow behind proxies with small default windows
		base, closeIdle = network, network.CloseIdleConnections
	}
	if wrap != nil {
		base = wrap(base)
	}
	return &transport{base: base, closeIdle: closeIdle, log: log}
}

// transport limits the time of every request and logs its method, path, status and time at debug level. It never logs
// headers or bodies, which contain tokens and passwords.
type transport struct {
	base      http.RoundTripper
	closeIdle func()
	log       *slog.Logger
}

// CloseIdleConnections is called by http.Client's method of that name.
func (t *transport) CloseIdleConnections() { t.closeIdle() }

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	start := time.Now()
	drivers.RequestSent(r.Context())
	ctx, cancel := context.WithCancel(r.Context())
	if !carriesImage(r) { // image transfers have their own stall watch
		ctx, cancel = context.WithTimeout(r.Context(), requestLimit)
	}
	resp, err := t.base.RoundTrip(r.WithContext(ctx))
	t.trace(r, resp, err, time.Since(start))
	if err != nil {
		cancel()
		return nil, err
	}
	if !carriesImage(r) || resp.StatusCode != http.StatusOK {
		drivers.BoundBody(ctx, resp)
	}
	resp.Body = &cancelingBody{resp.Body, cancel}
	return resp, nil
}

func (t *transport) trace(r *http.Request, resp *http.Response, err error, took time.Duration) {
	if !t.log.Enabled(r.Context(), slog.LevelDebug) {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", r.Method), slog.String("host", r.URL.Host), slog.String("path", r.URL.Path),
		slog.Duration("took", took),
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	} else {
		attrs = append(attrs, slog.Int("status", resp.StatusCode), slog.String("request_id", resp.Header.Get("X-Openstack-Request-Id")))
	}
	t.log.LogAttrs(r.Context(), slog.LevelDebug, "openstack call", attrs...)
}

func carriesImage(r *http.Request) bool {
	return (r.Method == http.MethodPut || r.Method == http.MethodGet) && strings.HasSuffix(r.URL.Path, "/file")
}

// cancelingBody ends the request's context when its body is closed.
type cancelingBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *cancelingBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
