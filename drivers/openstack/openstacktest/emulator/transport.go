package emulator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// errCut is the client's error when the cloud cuts the connection.
var errCut = errors.New("connection reset by peer")

// transport calls the cloud's handler without a socket. It behaves like a connection: the head of the response
// arrives before its body, an aborted handler cuts the body off, and the caller may disconnect before the response.
type transport struct {
	cloud *Cloud
	mu    sync.Mutex // guards ended and additions to calls
	ended bool
	calls sync.WaitGroup
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		closeBody(req)
		return nil, err
	}
	if !t.begin() {
		closeBody(req)
		return nil, fmt.Errorf("emulator: %w", http.ErrServerClosed)
	}
	reader, writer := io.Pipe()
	w := &pipeWriter{header: http.Header{}, body: writer, head: make(chan struct{})}
	ctx, cancel := context.WithCancel(req.Context())
	closed := context.AfterFunc(t.cloud.closing, cancel)
	go func() {
		defer t.calls.Done()
		defer cancel()
		defer closed()
		defer closeBody(req)
		t.call(w, incoming(ctx, req))
	}()
	select {
	case <-w.head:
	case <-req.Context().Done():
		_ = reader.CloseWithError(req.Context().Err())
		return nil, req.Context().Err()
	}
	if w.status == 0 {
		return nil, fmt.Errorf("emulator: %w", errCut)
	}
	return w.response(req, reader), nil
}

func (t *transport) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return false
	}
	t.calls.Add(1)
	return true
}

func (t *transport) wait() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.calls.Wait()
}

// call runs the handler and ends the body, with or without an error.
func (t *transport) call(w *pipeWriter, req *http.Request) {
	stop := context.AfterFunc(req.Context(), func() { _ = w.body.CloseWithError(req.Context().Err()) })
	defer stop()
	defer func() {
		trouble := recover()
		if trouble != nil && trouble != http.ErrAbortHandler { //nolint:errorlint // panics with this exact value
			panic(trouble)
		}
		if trouble != nil {
			_ = w.body.CloseWithError(io.ErrUnexpectedEOF)
			w.arrive()
			return
		}
		w.WriteHeader(http.StatusOK)
		_ = w.body.Close()
	}()
	t.cloud.handler.ServeHTTP(w, req)
}

// incoming returns the request as a server receives it.
func incoming(ctx context.Context, req *http.Request) *http.Request {
	in := req.Clone(ctx)
	in.RequestURI = req.URL.RequestURI()
	if in.Host == "" {
		in.Host = req.URL.Host
	}
	if in.Body == nil {
		in.Body = http.NoBody
	}
	if in.Header == nil {
		in.Header = http.Header{}
	}
	return in
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

// pipeWriter passes on the head once and the body as it is written.
type pipeWriter struct {
	header http.Header
	body   *io.PipeWriter
	once   sync.Once
	head   chan struct{} // closed when status and sent are set
	status int           // zero after the head: there is no response
	sent   http.Header
}

var _ http.ResponseWriter = (*pipeWriter)(nil)

func (w *pipeWriter) Header() http.Header { return w.header }

func (w *pipeWriter) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.head)
	})
}

// arrive signals the client that the head is complete.
func (w *pipeWriter) arrive() { w.once.Do(func() { close(w.head) }) }

func (w *pipeWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

func (w *pipeWriter) response(req *http.Request, body io.ReadCloser) *http.Response {
	length := int64(-1)
	if _, err := fmt.Sscan(w.sent.Get("Content-Length"), &length); err != nil {
		length = -1
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: body, ContentLength: length, Request: req,
	}
}
