package httpapi_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/watch/httpapi"
)

// hurried serves the lab's daemon on another socket, with short limits.
func (l *lab) hurried(body, call time.Duration) *lab {
	l.t.Helper()
	path := testutil.ShortDir(l.t) + "/sock"
	listener, err := httpapi.ListenUnix(path, 0o600)
	testutil.Must(l.t, err)
	l.t.Cleanup(l.serveBy(httpapi.New(l.daemon, httpapi.Options{BodyTime: body, CallTime: call}), listener))
	other := *l
	other.socket = path
	return &other
}

func TestIncompleteBodyIsAnError(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet, nil).hurried(50*time.Millisecond, 0)
	for _, path := range []string{"/v1/requests", "/v1/nodes/0000000001/hold", "/v1/reload"} {
		conn := l.dial()
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		if _, err := io.WriteString(conn, "POST "+path+" HTTP/1.1\r\nHost: npctl\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		testutil.Must(t, err)
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusRequestTimeout || !strings.Contains(string(text), `"timeout"`) {
			t.Errorf("%s: %s %s, %v", path, response.Status, text, err)
		}
	}
}

func TestCallTimeoutIsAnError(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet, nil)
	l.loading = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	other := l.hurried(0, 50*time.Millisecond)
	status, _, text := other.raw("POST", "/v1/reload", "{}")
	if status != http.StatusServiceUnavailable || !strings.Contains(text, `"timeout"`) {
		t.Errorf("%d %s", status, text)
	}
}

// TestCallsMayTakeLongerThanTheirBodies checks that BodyTime does not limit the rest of the call.
func TestCallsMayTakeLongerThanTheirBodies(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet, nil)
	l.loading = func(ctx context.Context) error {
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
		return ctx.Err()
	}
	other := l.hurried(50*time.Millisecond, 0)
	if status, _, text := other.raw("POST", "/v1/reload", "{}"); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
}
