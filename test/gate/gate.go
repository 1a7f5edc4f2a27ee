// Package Gate is a proxy between npctl and the APIs of a cloud, with which tests observe calls, inject faults and kill
// npctl right before or after a call.
package gate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
)

// Gate is a proxy between npctl and the services. Its hooks decide about each call. A call that passes is executed by
// the service to its end, even if npctl no longer waits for the response.
type Gate struct {
	mu     sync.Mutex           // guards the fields below
	calls  []string             // all calls, such as "POST compute /servers"
	failed []string             // the calls that services refused, such as "403 POST compute /servers"
	before func(c string) error // called before a call is forwarded; an error cuts the connection
	after  func(c string) error // called before the response is returned; an error cuts the connection instead
}

// callLimit is the time limit of a call that npctl no longer waits for.
const callLimit = 5 * time.Minute

// ErrCut is the error of hooks that cut the connection.
var ErrCut = errors.New("cut")

// Serve starts a proxy to the API of a service at upstream and returns its URL. A nil transport is the default one.
func (g *Gate) Serve(t *testing.T, service, upstream string, transport http.RoundTripper) string {
	t.Helper()
	target, err := url.Parse(upstream)
	testutil.Must(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = target.Scheme, target.Host, r.In.Host
		},
		FlushInterval: -1,
		Transport:     transport,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			panic(http.ErrAbortHandler) // the service does not respond: neither does the gate
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := r.Method + " " + service + " /" + strings.TrimPrefix(r.URL.Path, target.Path)
		if err := g.hook(call, true); err != nil {
			panic(http.ErrAbortHandler)
		}
		one := *proxy
		one.ModifyResponse = func(answer *http.Response) error {
			g.recordRefusal(call, answer.StatusCode)
			return g.hook(call, false)
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), callLimit)
		defer cancel()
		one.ServeHTTP(w, r.WithContext(ctx))
	}))
	t.Cleanup(server.Close)
	return server.URL + target.Path
}

// hook records a call and calls its hook.
func (g *Gate) hook(call string, before bool) error {
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
func (g *Gate) recordRefusal(call string, status int) {
	if status < 400 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failed = append(g.failed, fmt.Sprintf("%d %s", status, call))
}

// Refusals returns the creating calls that a service refused.
func (g *Gate) Refusals() (calls []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, call := range g.failed {
		if strings.Contains(call, " POST ") {
			calls = append(calls, call)
		}
	}
	return calls
}

// CallsWithPrefix returns the calls with a prefix, such as "DELETE compute".
func (g *Gate) CallsWithPrefix(kind string) (calls []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, call := range g.calls {
		if strings.HasPrefix(call, kind) {
			calls = append(calls, call)
		}
	}
	return calls
}

// Set replaces the hooks and clears the recorded calls.
func (g *Gate) Set(before, after func(call string) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.before, g.after, g.calls, g.failed = before, after, nil, nil
}

// Count returns the number of calls: under true the changing ones, under false all.
func (g *Gate) Count() map[bool]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := map[bool]int{false: len(g.calls)}
	for _, c := range g.calls {
		if Changes(c) {
			n[true]++
		}
	}
	return n
}

// Changes reports whether a call is a changing one.
func Changes(call string) bool {
	return !strings.HasPrefix(call, "GET ") && !strings.HasPrefix(call, "HEAD ")
}
