package connlimit

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// Serve serves l until ctx is done. Then it accepts no more connections, answers the first request of each connection that it
// has accepted, and shuts the server down; what remains after limit is closed. http.Server.Shutdown alone drops the first
// request of such a connection without a response. A client repeats the further ones, since it knows that their connection may
// have been closed.
func Serve(ctx context.Context, s *http.Server, l net.Listener, limit time.Duration) error {
	f := &fresh{conns: map[net.Conn]bool{}}
	handler := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(net.Conn); ok {
			f.end(c)
		}
		handler.ServeHTTP(w, r)
	})
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		f.begin(c)
		return context.WithValue(ctx, connKey{}, c)
	}
	s.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateClosed || state == http.StateHijacked {
			f.end(c)
		}
		ConnState(c, state)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	s.SetKeepAlivesEnabled(false) // the next response on a connection is its last one
	_ = l.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	for ctx.Err() == nil && f.any() {
		time.Sleep(5 * time.Millisecond)
	}
	if err := s.Shutdown(ctx); err != nil {
		_ = s.Close() // a client does not read its response
	}
	return nil
}

type connKey struct{}

// fresh are the connections whose first request no handler has.
type fresh struct {
	mu    sync.Mutex
	conns map[net.Conn]bool // guarded by mu
}

func (f *fresh) begin(c net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns[c] = true
}

func (f *fresh) end(c net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, c)
}

func (f *fresh) any() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.conns) > 0
}
