package connlimit

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
)

// TestAcceptedConnectionIsAnsweredDuringTheEnd sends the request of an accepted connection after the end of the server has begun.
func TestAcceptedConnectionIsAnsweredDuringTheEnd(t *testing.T) {
	path := filepath.Join(testutil.ShortDir(t), "socket")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	testutil.Must(t, err)
	ctx, end := context.WithCancel(t.Context())
	accepted := make(chan struct{}, 2)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "answer") }), //nolint:gosec // test only
		BaseContext: func(net.Listener) context.Context { return t.Context() }}
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, s, counted{l, accepted}, testutil.Patience) }()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", path)
	testutil.Must(t, err)
	defer conn.Close() //nolint:errcheck // of a test
	<-accepted
	end()
	testutil.Await(t, "the server accepts no more connections", func() bool {
		other, err := (&net.Dialer{}).DialContext(t.Context(), "unix", path)
		if err == nil {
			_ = other.Close()
		}
		return err != nil
	})
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	testutil.Must(t, err)
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	testutil.Must(t, err)
	defer r.Body.Close() //nolint:errcheck // of a test
	if text, err := io.ReadAll(r.Body); string(text) != "answer" || err != nil || !r.Close {
		t.Errorf("the response is %q, %v, closes the connection: %t", text, err, r.Close)
	}
	testutil.Must(t, <-served)
}

// TestSilentConnectionDelaysTheEndByTheLimit connects and sends nothing.
func TestSilentConnectionDelaysTheEndByTheLimit(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	testutil.Must(t, err)
	ctx, end := context.WithCancel(t.Context())
	accepted := make(chan struct{}, 2)
	served := make(chan error, 1)
	go func() {
		served <- Serve(ctx, &http.Server{Handler: http.NotFoundHandler()}, counted{l, accepted}, 50*time.Millisecond)
	}() //nolint:gosec // test only
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	testutil.Must(t, err)
	defer conn.Close() //nolint:errcheck // of a test
	<-accepted
	end()
	testutil.Must(t, <-served)
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open after the end")
	}
}

// counted reports each connection that it accepts.
type counted struct {
	net.Listener
	accepted chan<- struct{}
}

func (c counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.accepted <- struct{}{}
	}
	return conn, err
}
