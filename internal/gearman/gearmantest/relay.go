package gearmantest

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
)

// Relay is a TCP relay in front of a server. It resets connections when a test wants to lose them.
type Relay struct {
	listener net.Listener
	server   string
	work     sync.WaitGroup

	mu                sync.Mutex
	conns             map[net.Conn]bool // guarded by mu: to clients and to the server
	resetting         bool              // guarded by mu: new connections are reset, too
	accepted, refused int               // guarded by mu
}

// StartRelay starts a relay that is stopped at the end of the test.
func StartRelay(t testing.TB, server string) *Relay {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{listener: listener, server: server, conns: map[net.Conn]bool{}}
	r.work.Go(r.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		r.Reset()
		r.work.Wait()
	})
	return r
}

// Addr returns the address for clients, host:port.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// Reset resets all connections, and new ones until Resume is called.
func (r *Relay) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resetting = true
	for conn := range r.conns {
		reset(conn)
	}
}

// Resume accepts connections again.
func (r *Relay) Resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resetting = false
}

// Accepted returns the number of connections from clients that were not refused.
func (r *Relay) Accepted() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.accepted
}

// Refused returns the number of connections from clients that were reset because of Reset.
func (r *Relay) Refused() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

func (r *Relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		if r.add(client) {
			r.work.Go(func() { r.relay(client) })
		}
	}
}

// add registers a connection from a client, or resets it.
func (r *Relay) add(client net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.resetting {
		r.refused++
		reset(client)
		return false
	}
	r.accepted++
	r.conns[client] = true
	return true
}

func (r *Relay) relay(client net.Conn) {
	defer r.drop(client)
	server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", r.server)
	if err != nil {
		return
	}
	defer r.drop(server)
	r.mu.Lock()
	r.conns[server] = true
	if r.resetting {
		reset(server)
	}
	r.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(server, client) // the loss of one side ends both
		_ = server.Close()
	}()
	_, _ = io.Copy(client, server)
	_ = client.Close()
	<-done
}

func (r *Relay) drop(conn net.Conn) {
	_ = conn.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, conn)
}

// reset closes a connection so that its peer gets an error instead of an end.
func reset(conn net.Conn) {
	_ = conn.(*net.TCPConn).SetLinger(0) // fails only for a closed connection
	_ = conn.Close()
}
