package httpapi_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/watch/httpapi"
)

func (l *lab) dial() net.Conn {
	l.t.Helper()
	conn, err := net.Dial("unix", l.socket)
	testutil.Must(l.t, err)
	l.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// say sends bytes unchanged and returns the status line of the response.
func (l *lab) say(text string) string {
	l.t.Helper()
	conn := l.dial()
	_ = conn.SetDeadline(time.Now().Add(testutil.Patience))
	go func() { _, _ = io.WriteString(conn, text) }()
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err.Error()
	}
	return strings.TrimSpace(line)
}

func TestLimitsAreEnforced(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet, nil)
	status, _, text := l.raw("POST", "/v1/requests", `{"requestor":"`+strings.Repeat("x", 2<<20)+`"}`)
	if status != http.StatusRequestEntityTooLarge || !strings.Contains(text, string(wire.CodeTooLarge)) {
		t.Errorf("a body of 2 MiB: %d %.200s", status, text)
	}
	head := "POST /v1/requests HTTP/1.1\r\nHost: npctl\r\nContent-Type: application/json\r\n"
	for what, said := range map[string]string{
		"a header of 64 KiB":             head + "X-Large: " + strings.Repeat("x", 64<<10) + "\r\n\r\n",
		"a line without end":             "GET /" + strings.Repeat("x", 64<<10) + " HTTP/1.1\r\nHost: npctl\r\n\r\n",
		"thousands of headers":           head + strings.Repeat("X: y\r\n", 20000) + "\r\n",
		"a body longer than is said":     head + "Content-Length: 5\r\nContent-Length: 50\r\n\r\n{}",
		"two ways of telling the length": head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
	} {
		if got := l.say(said); !strings.HasPrefix(got, "HTTP/1.1 4") && !strings.HasPrefix(got, "HTTP/1.1 501") {
			t.Errorf("%s: %q", what, got)
		}
	}
	status, _, text = l.raw("POST", "/v1/requests", `{"labels":["metal"],"data":`+strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000)+`}`)
	if status != http.StatusBadRequest {
		t.Errorf("deep nesting: %d %.200s", status, text)
	}
	status, _, text = l.raw("POST", "/v1/requests", `{"labels":["`+strings.Repeat(`metal","`, 1000)+`metal"]}`)
	if status != http.StatusBadRequest || !strings.Contains(text, `length \u003c= 100`) {
		t.Errorf("1001 labels: %d %.200s", status, text)
	}
	status, _, text = l.raw("POST", "/v1/requests", `{"labels":["metal"]}`, "Content-Type", "text/plain")
	if status != http.StatusUnsupportedMediaType {
		t.Errorf("text/plain: %d %.200s", status, text)
	}
}

func TestInvalidPathsAreRejected(t *testing.T) {
	l := newLab(t, fleet, nil)
	for _, path := range []string{"/v1/../v1/status", "/v1/./status", "//v1/status", "/v1//status", "/v1/nodes/%2e%2e/status", "/v1/nodes/..%2fstatus",
		"/v1/nodes/a%2fb", "/v1/nodes/a%5cb", "/v1/nodes/%00", "/v1/nodes/a%0ab", "/v1/nodes/%ff", "/v1/status/", "/v1/nodes/", "/v1/nodes/../../../etc/passwd",
		"/v1/nodes/" + strings.Repeat("x", 5000), "http://other/v1/status/.."} {
		got := l.say("GET " + path + " HTTP/1.1\r\nHost: npctl\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 400") && !strings.HasPrefix(got, "HTTP/1.1 404") {
			t.Errorf("%.80s: %q", path, got)
		}
	}
	for _, tricky := range []string{"<script>alert(1)</script>", `"><img src=x>`, "\x1b[31mred", "a\u202eb"} {
		for _, path := range []string{"/v1/why?subject=" + escape(tricky), "/v1/labels/" + escape(tricky), "/v1/requests?x" + escape(tricky) + "=1"} {
			status, header, text := l.raw("GET", path, "")
			if status < 400 || strings.Contains(text, tricky) || header.Get("X-Content-Type-Options") != "nosniff" ||
				!strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") {
				t.Errorf("%q came back: %d %s", tricky, status, text)
			}
		}
	}
	long := strings.Repeat("y", 1000)
	if _, _, text := l.raw("GET", "/v1/labels/"+long, ""); strings.Contains(text, long) {
		t.Errorf("1000 bytes came back: %s", text)
	}
}

func escape(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		fmt.Fprintf(&b, "%%%02x", c)
	}
	return b.String()
}

func TestSlowClientsAreDisconnected(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet, nil)
	conns := map[string]net.Conn{"a head that never ends": l.dial(), "nothing at all": l.dial()}
	_, _ = io.WriteString(conns["a head that never ends"], "GET /v1/status HTTP/1.1\r\nHost: npctl\r\nX-Slow: ")
	var wg sync.WaitGroup
	for what, conn := range conns {
		wg.Go(func() {
			_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
			if _, err := io.Copy(io.Discard, conn); err != nil {
				t.Errorf("%s: the connection was not closed: %v", what, err)
			}
		})
	}
	if _, err := l.Status(t.Context()); err != nil { // other clients are still served
		t.Error(err)
	}
	wg.Wait()
}

// TestSecretsDoNotAppear searches all output of the API and the log for a sensitive variable and for tokens.
func TestSecretsDoNotAppear(t *testing.T) {
	var log bytes.Buffer
	var mu sync.Mutex
	l := newLab(t, fleet, lockedWriter{&mu, &log})
	a := newAuthority(t, "authority")
	cert, key := a.issue("server")
	url := l.overTLS(httpapi.TLS{Cert: cert, Key: key})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/status", http.NoBody)
	testutil.Must(t, err)
	request.Header.Set("Authorization", "Bearer "+fullToken+"-nearly")
	if response, err := (&http.Client{}).Do(request); err == nil {
		_ = response.Body.Close()
	}
	l.taken(time.Minute, "small")
	var all strings.Builder
	for _, path := range []string{"/v1/status", "/v1/requests", "/v1/nodes", "/v1/labels", "/v1/images", "/v1/providers", "/v1/plan", "/v1/snapshot", "/v1/steps", "/v1/events?limit=10000",
		"/v1/why?subject=image/debian", "/v1/why?subject=provider/one", "/v1/why?subject=label/small", "/v1/store/records", "/v1/store", "/v1/store/locks", "/openapi.json", "/metrics"} {
		status, _, text := l.raw("GET", path, "")
		if status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, text)
		}
		all.WriteString(text)
	}
	l.write(strings.Replace(fleet, "max_servers", "max_serfers", 1))
	_, _, text := l.raw("POST", "/v1/reload", "")
	all.WriteString(text)
	export := l.store.Export(t.Context(), &all)
	if export != nil {
		t.Fatal(export)
	}
	mu.Lock()
	logged, _ := all.Write(log.Bytes())
	mu.Unlock()
	if !strings.Contains(all.String(), "debian") || logged == 0 {
		t.Fatal("nothing was looked at")
	}
	for _, hidden := range []string{secret, readToken, fullToken} {
		if strings.Contains(all.String(), hidden) {
			i := strings.Index(all.String(), hidden)
			t.Errorf("%q is in: ...%s...", hidden, all.String()[max(0, i-200):min(all.Len(), i+200)])
		}
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	to io.Writer
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

func TestLongPollsDoNotBlockOtherCalls(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet, nil)
	l.taken(0, "metal", "metal") // so that no further events occur
	seen, err := l.Events(t.Context(), "", "provider/rack", 0)
	testutil.Must(t, err)
	const waiters = 300
	var wg sync.WaitGroup
	var answered atomic.Int32
	for range waiters {
		conn := l.dial()
		_, _ = io.WriteString(conn, "GET /v1/events?subject=provider/rack&after="+seen.Next+"&wait=60s HTTP/1.1\r\nHost: npctl\r\nConnection: close\r\n\r\n")
		wg.Go(func() {
			_ = conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
			if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
				t.Errorf("a waiter got %q, %v", line, err)
			}
			answered.Add(1)
		})
	}
	for range 20 {
		if _, err := l.Status(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := answered.Load(); n > 0 {
		t.Errorf("20 calls were answered after %d of %d who wait for a minute", n, waiters)
	}
	if _, err := l.FreezeProvider(t.Context(), "rack"); err != nil { // they wait for this event
		t.Fatal(err)
	}
	wg.Wait()
}

func TestPanicIsAnErrorWithoutDetails(t *testing.T) {
	l := newLab(t, fleet, nil)
	broken := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("inner secrets") })
	server := httpapi.New(l.daemon, httpapi.Options{Metrics: broken})
	path := testutil.ShortDir(t) + "/sock"
	listener, err := httpapi.ListenUnix(path, 0o600)
	testutil.Must(t, err)
	end := l.serveBy(server, listener)
	l.socket = path
	status, _, text := l.raw("GET", "/metrics", "")
	end()
	if status != http.StatusInternalServerError || strings.Contains(text, "secrets") {
		t.Errorf("a panic: %d %s", status, text)
	}
}

func TestOpenRequestsAreLimited(t *testing.T) {
	t.Parallel()
	configuration := strings.Replace(fleet, `npctl { images_dir = "images" }`, "npctl {\n  images_dir   = \"images\"\n  max_requests = 3\n}", 1)
	l := newLab(t, configuration, nil) // max_requests is three: a fulfilled request counts until its nodes are taken
	ask := func() (int, string, string) {
		status, header, text := l.raw("POST", "/v1/requests", `{"labels":["small"]}`)
		return status, header.Get("Location"), text
	}
	first := ""
	for range 3 {
		status, at, text := ask()
		if status != http.StatusCreated {
			t.Fatalf("%d %s", status, text)
		}
		first = at
	}
	if status, _, text := ask(); status != http.StatusTooManyRequests || !strings.Contains(text, string(wire.CodeTooManyRequests)) || !strings.Contains(text, "max_requests allows 3") {
		t.Errorf("the fourth: %d %s", status, text)
	}
	if status, _, text := l.raw("DELETE", first, ""); status != http.StatusNoContent && status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	if status, _, text := ask(); status != http.StatusCreated {
		t.Errorf("after one was withdrawn: %d %s", status, text)
	}
}
