//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

// gate is a proxy between npctl and the services. Its hooks decide about each call. A call that passes is executed by
// the service to its end, even if npctl no longer waits for the response.
type gate struct {
	mu     sync.Mutex           // guards the fields below
	calls  []string             // all calls, such as "POST compute /servers"
	failed []string             // the calls that services refused, such as "403 POST compute /servers"
	before func(c string) error // called before a call is forwarded; a refusal is returned as the response, any other error cuts the connection
	after  func(c string) error // called before the response is returned; an error cuts the connection instead
}

// errCut is the error of hooks that only cut the connection.
var errCut = errors.New("cut")

// refusal is the error of hooks that respond in place of a service.
type refusal struct{ status, retryAfter int }

func (r refusal) Error() string { return http.StatusText(r.status) }

// withGate inserts a gate before the project's services. The entry "mine" uses it.
func (p *project) withGate() *gate {
	p.t.Helper()
	g := &gate{}
	mine := p.entries["mine"].(map[string]any)
	for service, key := range map[string]string{compute: "compute", network: "network", image: "image", volume: "block_storage"} {
		upstream, err := p.url(service)
		testutil.Must(p.t, err)
		mine[key+"_endpoint_override"] = g.serve(p.t, service, upstream)
	}
	return g
}

func (g *gate) serve(t *testing.T, service, upstream string) string {
	t.Helper()
	target, err := url.Parse(upstream)
	testutil.Must(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = target.Scheme, target.Host, r.In.Host
		},
		FlushInterval: -1,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			panic(http.ErrAbortHandler) // the service does not respond: neither does the gate
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := r.Method + " " + service + " /" + strings.TrimPrefix(r.URL.Path, target.Path)
		if err := g.hook(call, true); err != nil {
			refuse(w, err)
			return
		}
		one := *proxy
		one.ModifyResponse = func(answer *http.Response) error {
			g.recordRefusal(call, answer.StatusCode)
			return g.hook(call, false)
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), runLimit)
		defer cancel()
		one.ServeHTTP(w, r.WithContext(ctx))
	}))
	t.Cleanup(server.Close)
	return server.URL + target.Path
}

// refuse responds with a refusal, or cuts the connection.
func refuse(w http.ResponseWriter, err error) {
	var r refusal
	if !errors.As(err, &r) {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Retry-After", strconv.Itoa(r.retryAfter))
	http.Error(w, r.Error(), r.status)
}

// hook records a call and calls its hook.
func (g *gate) hook(call string, before bool) error {
	g.mu.Lock()
	ask := g.after
	if before {
		g.calls = append(g.calls, call)
		ask = g.before
	}
	g.mu.Unlock()
	if ask == nil {
		return nil
	}
	return ask(call)
}

// recordRefusal records a response that refuses a call.
func (g *gate) recordRefusal(call string, status int) {
	if status < 400 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failed = append(g.failed, fmt.Sprintf("%d %s", status, call))
}

// refusals returns the creating calls that a service refused.
func (g *gate) refusals() (calls []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, call := range g.failed {
		if strings.Contains(call, " POST ") {
			calls = append(calls, call)
		}
	}
	return calls
}

// callsWithPrefix returns the calls with a prefix, such as "DELETE compute".
func (g *gate) callsWithPrefix(kind string) (calls []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, call := range g.calls {
		if strings.HasPrefix(call, kind) {
			calls = append(calls, call)
		}
	}
	return calls
}

// set replaces the hooks and clears the recorded calls.
func (g *gate) set(before, after func(call string) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.before, g.after, g.calls, g.failed = before, after, nil, nil
}

// count returns the number of calls: under true the changing ones, under false all.
func (g *gate) count() map[bool]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := map[bool]int{false: len(g.calls)}
	for _, c := range g.calls {
		if changes(c) {
			n[true]++
		}
	}
	return n
}

// changes reports whether a call is a changing one.
func changes(call string) bool {
	return !strings.HasPrefix(call, "GET ") && !strings.HasPrefix(call, "HEAD ")
}
