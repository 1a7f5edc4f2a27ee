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

// meddling is what happens to calls of Glance that change something.
type meddling struct {
	on    string // method: POST makes a record, PUT brings the content, DELETE removes
	times int    // 1 when 0
	do    func(r *rebuilding, c *meddled)
}

// meddled is a call that is meddled with.
type meddled struct {
	w    http.ResponseWriter
	r    *http.Request
	pass func(http.ResponseWriter, *http.Request)
}

// meddler stands between npctl and Glance. After each call that changes something it looks whether every provider that
// has had an active image has one.
type meddler struct {
	rebuilding *rebuilding
	upstream   *url.URL

	mu       sync.Mutex // guards the rest
	meddling meddling
	hits     int
	statuses map[string]bool // "PUT 500" that Glance itself has answered
	process  *os.Process
	blind    bool            // Glance answers nobody
	had      map[string]bool // providers that have had an image
	looks    int
}

func newMeddler(t *testing.T, r *rebuilding) *meddler {
	t.Helper()
	base, err := r.p.url(image)
	if err != nil {
		t.Fatal(err)
	}
	m := &meddler{rebuilding: r, statuses: map[string]bool{}, had: map[string]bool{}}
	if m.upstream, err = url.Parse(base); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	r.p.entries["mine"].(map[string]any)["image_endpoint_override"] = server.URL + m.upstream.Path
	return m
}

// ServeHTTP implements http.Handler.
func (m *meddler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		m.pass(w, r)
		return
	}
	defer m.look(r.Method + " " + r.URL.Path)
	m.mu.Lock()
	do := m.meddling.do
	if r.Method != m.meddling.on || m.hits >= max(m.meddling.times, 1) {
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
	do(m.rebuilding, &meddled{w, r, m.pass})
}

// pass hands the call to Glance.
func (m *meddler) pass(w http.ResponseWriter, r *http.Request) {
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

// close ends the looking.
func (m *meddler) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.blind = true
}

func (m *meddler) meddle(with meddling) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.meddling, m.hits, m.statuses = with, 0, map[string]bool{}
}

func (m *meddler) runs(process *os.Process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.process = process
}

func (m *meddler) met() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hits > 0
}

// status tells of a mishap in Glance itself that it has answered so.
func status(method string, code int) func(*rebuilding) bool {
	return func(r *rebuilding) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.statuses[fmt.Sprint(method, " ", code)]
	}
}

func (m *meddler) look(after string) {
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

// answer is what a broken service, or what stands before it, says.
func answer(status int) func(*rebuilding, *meddled) {
	return func(_ *rebuilding, c *meddled) {
		_, _ = io.Copy(io.Discard, c.r.Body)
		http.Error(c.w, http.StatusText(status), status)
	}
}

// lose lets Glance do it and cuts the connection instead of answering.
func lose(_ *rebuilding, c *meddled) {
	c.pass(httptest.NewRecorder(), c.r)
	panic(http.ErrAbortHandler)
}

// hang never answers.
func hang(_ *rebuilding, c *meddled) {
	_, _ = io.Copy(io.Discard, c.r.Body) // so that the client's end is noticed
	<-c.r.Context().Done()
	panic(http.ErrAbortHandler)
}

// late lets Glance do it once the client has given up.
func late(_ *rebuilding, c *meddled) {
	body, _ := io.ReadAll(c.r.Body)
	<-c.r.Context().Done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), time.Minute)
	defer cancel()
	again := c.r.Clone(ctx)
	again.Body = io.NopCloser(bytes.NewReader(body))
	c.pass(httptest.NewRecorder(), again)
	panic(http.ErrAbortHandler)
}

// halve lets half of the content through and cuts the connection on both sides.
func halve(_ *rebuilding, c *meddled) {
	half := c.r.Clone(c.r.Context())
	half.Body = io.NopCloser(io.LimitReader(c.r.Body, c.r.ContentLength/2))
	c.pass(httptest.NewRecorder(), half)
	panic(http.ErrAbortHandler)
}

// damage changes the content on its way.
func damage(_ *rebuilding, c *meddled) {
	body, err := io.ReadAll(c.r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	body[len(body)/2] ^= 1
	bent := c.r.Clone(c.r.Context())
	bent.Body = io.NopCloser(bytes.NewReader(body))
	c.pass(c.w, bent)
}

// signalled sends npctl a signal in the middle of the content.
func signalled(signal os.Signal) func(*rebuilding, *meddled) {
	return func(r *rebuilding, c *meddled) {
		r.mu.Lock()
		process := r.process
		r.mu.Unlock()
		first := make([]byte, 4096)
		n, _ := c.r.Body.Read(first)
		if err := process.Signal(signal); err != nil {
			r.t.Error(err)
		}
		rest := c.r.Clone(c.r.Context())
		rest.Body = io.NopCloser(io.MultiReader(bytes.NewReader(first[:n]), c.r.Body))
		c.pass(c.w, rest)
	}
}

// pauseGlance has Glance hang for longer than an upload may take.
func (r *rebuilding) pauseGlance(c *meddled) {
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

// patch changes an image past the meddler. Glance takes patches of a type of its own only.
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
