//go:build integration

package integration

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// proxyFault is a fault in the first changing call of Glance with a method.
type proxyFault struct {
	on string // method: POST creates a record, PUT uploads the content, DELETE removes the image
	do func(r *rebuilding, c *proxiedCall)
}

// proxiedCall is a call that a proxyFault changes.
type proxiedCall struct {
	w    http.ResponseWriter
	r    *http.Request
	pass func(http.ResponseWriter, *http.Request)
}

// faultProxy is a proxy between npctl and Glance. After each changing call it checks that every provider that has had an
// active image has one.
type faultProxy struct {
	rebuilding *rebuilding
	upstream   *url.URL

	mu       sync.Mutex // guards the fields below
	fault    proxyFault
	hits     int
	statuses map[string]bool // "PUT 500" for a response of Glance itself
	process  *os.Process
	blind    bool            // Glance does not respond to any client
	had      map[string]bool // providers that have had an image
	looks    int
}

func newFaultProxy(t *testing.T, r *rebuilding) *faultProxy {
	t.Helper()
	base, err := r.p.url(image)
	if err != nil {
		t.Fatal(err)
	}
	m := &faultProxy{rebuilding: r, statuses: map[string]bool{}, had: map[string]bool{}}
	if m.upstream, err = url.Parse(base); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	r.p.entries["mine"].(map[string]any)["image_endpoint_override"] = server.URL + m.upstream.Path
	return m
}

// ServeHTTP implements http.Handler.
func (m *faultProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		m.pass(w, r)
		return
	}
	defer m.checkAfter(r.Method + " " + r.URL.Path)
	m.mu.Lock()
	do := m.fault.do
	if r.Method != m.fault.on || m.hits > 0 {
		do = nil
	}
	if do != nil {
		m.hits++
	}
	m.mu.Unlock()
	if do == nil {
		m.pass(w, r)
		return
	}
	do(m.rebuilding, &proxiedCall{w, r, m.pass})
}

// pass forwards the call to Glance.
func (m *faultProxy) pass(w http.ResponseWriter, r *http.Request) {
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = m.upstream.Scheme, m.upstream.Host, p.In.Host
		},
		ModifyResponse: func(answer *http.Response) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.statuses[fmt.Sprint(r.Method, " ", answer.StatusCode)] = true
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	proxy.ServeHTTP(w, r)
}

// close stops the checks.
func (m *faultProxy) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.blind = true
}

func (m *faultProxy) setFault(with proxyFault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault, m.hits, m.statuses = with, 0, map[string]bool{}
}

func (m *faultProxy) setProcess(process *os.Process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.process = process
}

func (m *faultProxy) faultApplied() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hits > 0
}

// status returns a function that reports whether Glance itself has responded to the method with the code.
func status(method string, code int) func(*rebuilding) bool {
	return func(r *rebuilding) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.statuses[fmt.Sprint(method, " ", code)]
	}
}

func (m *faultProxy) checkAfter(after string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.blind {
		return
	}
	m.looks++
	has := map[string]bool{}
	for _, provider := range m.rebuilding.active() {
		has[provider] = true
	}
	for provider := range m.had {
		if !has[provider] {
			m.rebuilding.t.Errorf("after %s provider %s has no image any more", after, provider)
		}
	}
	for provider := range has {
		m.had[provider] = true
	}
}

// lose lets Glance execute the call and cuts the connection instead of responding.
func lose(_ *rebuilding, c *proxiedCall) {
	c.pass(httptest.NewRecorder(), c.r)
	panic(http.ErrAbortHandler)
}

// late lets Glance execute the call after the client has given up.
func late(_ *rebuilding, c *proxiedCall) {
	body, _ := io.ReadAll(c.r.Body)
	<-c.r.Context().Done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), time.Minute)
	defer cancel()
	again := c.r.Clone(ctx)
	again.Body = io.NopCloser(bytes.NewReader(body))
	c.pass(httptest.NewRecorder(), again)
	panic(http.ErrAbortHandler)
}

// halve forwards half of the content and cuts the connections on both sides.
func halve(_ *rebuilding, c *proxiedCall) {
	half := c.r.Clone(c.r.Context())
	half.Body = io.NopCloser(io.LimitReader(c.r.Body, c.r.ContentLength/2))
	c.pass(httptest.NewRecorder(), half)
	panic(http.ErrAbortHandler)
}

// damage changes the content on its way.
func damage(_ *rebuilding, c *proxiedCall) {
	body, err := io.ReadAll(c.r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	body[len(body)/2] ^= 1
	bent := c.r.Clone(c.r.Context())
	bent.Body = io.NopCloser(bytes.NewReader(body))
	c.pass(c.w, bent)
}

// kill kills npctl during the transfer of the content.
func kill(r *rebuilding, c *proxiedCall) {
	r.mu.Lock()
	process := r.process
	r.mu.Unlock()
	first := make([]byte, 4096)
	n, _ := c.r.Body.Read(first)
	if err := process.Kill(); err != nil {
		r.t.Error(err)
	}
	rest := c.r.Clone(c.r.Context())
	rest.Body = io.NopCloser(io.MultiReader(bytes.NewReader(first[:n]), c.r.Body))
	c.pass(c.w, rest)
}

// pauseGlance makes Glance hang for longer than upload_timeout.
func (r *rebuilding) pauseGlance(c *proxiedCall) {
	resume := r.p.with(r.t).pause("glance")
	r.mu.Lock()
	r.blind = true
	r.mu.Unlock()
	time.AfterFunc(8*time.Second, func() {
		resume()
		r.mu.Lock()
		r.blind = false
		r.mu.Unlock()
	})
	c.pass(c.w, c.r)
}

// patch changes an image without the proxy. Glance accepts patches only with a content type of its own.
func (r *rebuilding) patch(id, operations string) error {
	base, err := r.p.url(image)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodPatch, base+"images/"+id, strings.NewReader(operations))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/openstack-images-v2.1-json-patch")
	request.Header.Set("X-Auth-Token", r.p.provider.Token())
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("patch image %s: %s", id, resp.Status)
	}
	return nil
}
