package connlimit_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/connlimit"
	"github.com/npctl/npctl/internal/testutil"
)

// serve starts a server on a loopback address with the given limits. Requests for /slow wait for release.
func serve(t *testing.T, total, perClient int) (address string, release chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.Must(t, err)
	release = make(chan struct{})
	server := &http.Server{ConnState: connlimit.ConnState, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-release
		}
		_, _ = io.WriteString(w, "ok")
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(connlimit.Listen(l, total, perClient)) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return l.Addr().String(), release
}

// from sends a request from a local address over a new connection, and returns the start of the response.
func from(t *testing.T, client, address, path string) (conn net.Conn, status string, err error) {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(client)}, Timeout: time.Minute}
	conn, err = dialer.DialContext(context.Background(), "tcp", address)
	testutil.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: test\r\n\r\n", path); err != nil {
		return conn, "", err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return conn, strings.TrimSpace(line), err
}

const ok = "HTTP/1.1 200 OK"

func TestIdleConnectionsBlockNoClient(t *testing.T) {
	address, _ := serve(t, 6, 4)
	for range 3 {
		for _, client := range []string{"127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.1", "127.0.0.1"} {
			if _, status, err := from(t, client, address, "/"); err != nil || status != ok {
				t.Fatalf("%s beside idle connections: %q, %v", client, status, err)
			}
		}
	}
}

func TestRequestsInProgressAreNotEndedForNewConnections(t *testing.T) {
	address, release := serve(t, 100, 2)
	var busy []net.Conn
	for range 2 {
		conn, status, err := from(t, "127.0.0.1", address, "/slow")
		if err != nil || status != ok {
			t.Fatalf("%q, %v", status, err)
		}
		busy = append(busy, conn)
	}
	if _, status, err := from(t, "127.0.0.1", address, "/"); err == nil {
		t.Errorf("a third connection of the client gets %q", status)
	}
	if _, status, err := from(t, "127.0.0.2", address, "/"); err != nil || status != ok {
		t.Errorf("another client: %q, %v", status, err)
	}
	close(release)
	for _, conn := range busy {
		rest := make([]byte, 512)
		if _, err := conn.Read(rest); err != nil {
			t.Errorf("a request in progress was ended: %v", err)
		}
	}
}

func TestTotalIsLimited(t *testing.T) {
	address, release := serve(t, 2, 2)
	defer close(release)
	for _, client := range []string{"127.0.0.1", "127.0.0.2"} {
		if _, status, err := from(t, client, address, "/slow"); err != nil || status != ok {
			t.Fatalf("%q, %v", status, err)
		}
	}
	if _, status, err := from(t, "127.0.0.3", address, "/"); err == nil {
		t.Errorf("a third connection gets %q", status)
	}
}

func TestClosedConnectionsReleaseTheirSlots(t *testing.T) {
	address, _ := serve(t, 1, 1)
	for range 5 {
		var err error
		for began := time.Now(); time.Since(began) < testutil.Patience; time.Sleep(time.Millisecond) {
			var conn net.Conn
			var status string
			if conn, status, err = from(t, "127.0.0.1", address, "/"); err == nil && status == ok {
				_ = conn.Close()
				break
			}
			err = cmp.Or(err, fmt.Errorf("the status is %q", status)) // the server may not know yet that the connection before is closed
		}
		testutil.Must(t, err)
	}
}

func TestClientsAreDistinguished(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.7:1234":          "192.0.2.7",
		"[::ffff:192.0.2.7]:1":    "192.0.2.7",
		"[2001:db8:1:2:3::4]:443": "2001:db8:1:2::",
		"[fe80::1%eth0]:443":      "fe80::",
		"@":                       "invalid IP",
	} {
		if got := connlimit.Client(remote).String(); got != want {
			t.Errorf("the client of %s is %s, want %s", remote, got, want)
		}
	}
}
