package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

// TestNodepoolEndpointsServeTheirUsers makes the calls of known users of nodepool-launcher: a dashboard in a browser, a
// script with curl, and a load balancer.
func TestNodepoolEndpointsServeTheirUsers(t *testing.T) {
	dir := testutil.ShortDir(t)
	writeConfig(t, dir, watchedFleet)
	w := startWatch(t, dir, "-nodepool-listen=127.0.0.1:0")
	base := "http://" + w.address("tcp://")
	get := func(method, path string, headers ...string) (int, http.Header, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, base+path, nil)
		testutil.Must(t, err)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		answer, err := http.DefaultClient.Do(r)
		testutil.Must(t, err)
		defer answer.Body.Close() //nolint:errcheck // read below
		body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
		testutil.Must(t, err)
		return answer.StatusCode, answer.Header, string(body)
	}

	// a load balancer
	w.await("the probe succeeds", func() bool { status, _, body := get("GET", "/ready"); return status == http.StatusOK && body == "OK" })

	// a page in a browser, from another origin
	var nodes []map[string]any
	w.await("the machine is ready", func() bool {
		_, h, body := get("GET", "/node-list", "Accept", "application/json", "Origin", "https://dashboard.example.com")
		nodes = nil
		testutil.Must(t, json.Unmarshal([]byte(body), &nodes))
		if h.Get("Access-Control-Allow-Origin") != "*" || h.Get("Content-Type") != "application/json" ||
			h.Get("Cache-Control") != "public, max-age=1" || h.Get("Last-Modified") == "" || h.Get("Expires") == "" {
			t.Fatalf("headers %v", h)
		}
		return len(nodes) == 1 && nodes[0]["state"] == "ready"
	})
	if n := nodes[0]; n["provider"] != "rack" || n["pool"] != "main" || n["server_id"] != "metal1" || n["launcher"] != "static driver" ||
		n["connection_port"] != 22.0 || n["locked"] != "unlocked" || n["hold_job"] != nil || len(n) != 21 {
		t.Errorf("node %v", n)
	}

	// a cache
	_, old, _ := get("GET", "/label-list")
	modified := old.Get("Last-Modified")
	w.await("an unchanged document is not sent again", func() bool { // within the same second
		_, first, _ := get("GET", "/label-list")
		status, _, body := get("GET", "/label-list", "If-Modified-Since", first.Get("Last-Modified"))
		return status == http.StatusNotModified && body == ""
	})
	w.await("a document is sent again after a second", func() bool {
		status, _, body := get("GET", "/label-list", "If-Modified-Since", modified)
		return status == http.StatusOK && strings.Contains(body, "metal")
	})

	// scripts
	for path, want := range map[string]string{
		"/node-list?fields=id,state":                                         "| 0000000001 | ready |",
		"/node-list?node_id=" + nodes[0]["id"].(string) + "&fields=provider": "| rack     |",
		"/node-list?node_id=0000009999&fields=provider":                      "+----------+\n| Provider |\n+----------+\n+----------+",
		"/label-list":     "| metal |",
		"/request-list":   "| Request ID |",
		"/image-list":     "| Build ID |",
		"/dib-image-list": "| Builder |",
		"/image-status":   "| Build Request Age |",
	} {
		status, h, body := get("GET", path, "User-Agent", "curl/7.88.1", "Accept", "*/*")
		if status != http.StatusOK || h.Get("Content-Type") != "text/plain; charset=UTF-8" || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s\n%s\nwant %s", path, status, h.Get("Content-Type"), body, want)
		}
	}
	if status, _, body := get("HEAD", "/node-list"); status != http.StatusOK || body != "" {
		t.Errorf("HEAD: %d %q", status, body)
	}

	// everything else of npctl is not there
	for _, call := range []string{"GET /", "GET /v1/nodes", "GET /metrics", "GET /node-list.json", "POST /node-list", "DELETE /node-list", "GET /debug/pprof/"} {
		method, path, _ := strings.Cut(call, " ")
		if status, _, _ := get(method, path); status != http.StatusNotFound && status != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", call, status)
		}
	}
	if code := w.end(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, w.log)
	}
}
