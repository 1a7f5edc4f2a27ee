package openstack

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
)

// replay is a cloud that returns the responses of a test and records the requests.
type replay struct {
	*httptest.Server
	t testing.TB

	mu       sync.Mutex
	answers  map[string]func(*http.Request) (int, string) // by "METHOD /path"
	requests []string                                     // "METHOD /path?query"
	bodies   map[string]string                            // last body by "METHOD /path"
	logins   int
	token    string      // the only valid token; empty means any
	newest   string      // compute microversion
	header   http.Header // of every recorded response
}

const replayPassword = "pa55word"

func newReplay(t testing.TB) *replay {
	t.Helper()
	r := &replay{t: t, answers: map[string]func(*http.Request) (int, string){}, bodies: map[string]string{}, newest: "2.93"}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	r.on("GET /network/v2.0/networks", 200, `{"networks": [
		{"id": "net-1", "name": "private", "project_id": "project"}, {"id": "net-2", "name": "public", "router:external": true, "project_id": "admin"}]}`)
	r.on("GET /compute/v2.1/flavors/detail", 200, `{"flavors": [
		{"id": "f1", "name": "small", "vcpus": 1, "ram": 2048, "disk": 20}, {"id": "f2", "name": "large", "vcpus": 8, "ram": 8192, "disk": 80}]}`)
	return r
}

// on sets the response to a request.
func (r *replay) on(request string, status int, body string) {
	r.when(request, func(*http.Request) (int, string) { return status, body })
}

func (r *replay) when(request string, answer func(*http.Request) (int, string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[request] = answer
}

func (r *replay) asked(prefix string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []string
	for _, request := range r.requests {
		if strings.HasPrefix(request, prefix) {
			found = append(found, request)
		}
	}
	return found
}

func (r *replay) body(request string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bodies[request]
}

func (r *replay) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	key := q.Method + " " + q.URL.Path
	text, _ := io.ReadAll(q.Body)
	r.mu.Lock()
	request := key
	if q.URL.RawQuery != "" {
		request += "?" + q.URL.RawQuery
	}
	r.requests = append(r.requests, request)
	r.bodies[key] = string(text)
	answer, token, newest := r.answers[key], r.token, r.newest
	r.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case key == "POST /identity/v3/auth/tokens":
		r.login(w, string(text))
	case key == "GET /compute/v2.1/":
		fmt.Fprintf(w, `{"version": {"id": "v2.1", "status": "CURRENT", "version": %q, "min_version": "2.1"}}`, newest)
	case token != "" && q.Header.Get("X-Auth-Token") != token:
		w.WriteHeader(http.StatusUnauthorized)
	case answer == nil:
		r.t.Errorf("unexpected request %s", request)
		w.WriteHeader(http.StatusTeapot)
	default:
		q.Body = io.NopCloser(strings.NewReader(string(text)))
		status, body := answer(q)
		if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "7")
		}
		maps.Copy(w.Header(), r.header)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func (r *replay) login(w http.ResponseWriter, body string) {
	r.mu.Lock()
	r.logins++
	token := fmt.Sprintf("gAAAAtoken-%d", r.logins)
	r.mu.Unlock()
	if !strings.Contains(body, replayPassword) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error": {"code": 401, "message": "The request you have made requires authentication.", "title": "Unauthorized"}}`)
		return
	}
	var catalog []any
	for kind, path := range map[string]string{"compute": "/compute/v2.1", "image": "/image", "network": "/network", "volumev3": "/volume/v3/project"} {
		catalog = append(catalog, map[string]any{"type": kind, "name": kind, "endpoints": []any{
			map[string]any{"interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": r.URL + path},
		}})
	}
	text, _ := json.Marshal(map[string]any{"token": map[string]any{
		"project": map[string]any{"id": "project", "name": "ci", "domain": map[string]any{"id": "default", "name": "Default"}}, "catalog": catalog,
		"expires_at": "2099-01-01T00:00:00.000000Z",
	}})
	w.Header().Set("X-Subject-Token", token)
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(text)
}

// accept makes one token the only valid one.
func (r *replay) accept(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.token = token
}

func (r *replay) endpoint() Endpoint {
	return Endpoint{AuthURL: r.URL + "/identity/v3", Region: "RegionOne", Username: "me", Password: replayPassword, Project: "ci", CloudName: "lab"}
}

func (r *replay) open(log *slog.Logger) *Cloud {
	r.t.Helper()
	c, err := Connect(r.t.Context(), drivers.Env{Provider: "lab", Installation: "inst", Log: log}, r.endpoint(), cty.EmptyObjectVal)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c.(*Cloud)
}

// offerConfig returns a value of Schema().Label.
func offerConfig(attributes map[string]cty.Value) cty.Value {
	values := New().Schema().Label.Null().AsValueMap()
	maps.Copy(values, map[string]cty.Value{
		"flavor":   cty.StringVal("small"),
		"networks": cty.ListVal([]cty.Value{cty.StringVal("private")}),
	})
	maps.Copy(values, attributes)
	return cty.ObjectVal(values)
}
