package lab

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy forwards TCP connections to a server. Its methods may be called concurrently.
type Proxy struct {
	target   string
	listener net.Listener
	work     sync.WaitGroup

	mu      sync.Mutex
	open    map[net.Conn]bool // guarded by mu: both ends of every connection
	closed  bool              // guarded by mu
	refuses bool              // guarded by mu
	flow    chan struct{}     // guarded by mu: closed while bytes may pass
	answers chan struct{}     // guarded by mu: closed while answers may pass
	seen    int               // guarded by mu: number of forwarded connections
}

// StartProxy listens on a free loopback port and forwards connections to the target until the end of the test.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	return StartProxyAt(t, "127.0.0.1:0", target)
}

// StartProxyAt listens on an address, for example an address of 127.0.0.0/8 that the server's certificate does not
// name.
func StartProxyAt(t testing.TB, address, target string) *Proxy {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	flow := make(chan struct{})
	close(flow)
	p := &Proxy{target: target, listener: listener, open: map[net.Conn]bool{}, flow: flow, answers: flow}
	p.work.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Address returns the address of the proxy.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Connections returns the number of connections since the start.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}

// Cut closes all connections. The proxy forwards new ones.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.Close()
	}
}

// Block closes all connections, and every new one immediately.
func (p *Proxy) Block() {
	p.mu.Lock()
	p.refuses = true
	p.mu.Unlock()
	p.Cut()
}

// Unblock ends Block.
func (p *Proxy) Unblock() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = false
}

// Pause keeps connections open and forwards nothing, like a network that drops packets.
func (p *Proxy) Pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if isClosed(p.flow) {
		p.flow = make(chan struct{})
	}
}

// Mute keeps connections open and delays the data from the server.
func (p *Proxy) Mute() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if isClosed(p.answers) {
		p.answers = make(chan struct{})
	}
}

// Resume ends Pause and Mute: delayed data arrives late.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, gate := range []chan struct{}{p.flow, p.answers} {
		if !isClosed(gate) {
			close(gate)
		}
	}
}

func (p *Proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Cut()
	p.Resume()
	p.work.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.pass(client) })
	}
}

func (p *Proxy) pass(client net.Conn) {
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	if !p.admit(client, server) {
		return
	}
	defer p.forget(client, server)
	var ends sync.WaitGroup
	ends.Go(func() { p.pump(server, client, func() { <-p.gate() }) })
	ends.Go(func() { p.pump(client, server, func() { <-p.gate(); <-p.answerGate() }) })
	ends.Wait()
}

func (p *Proxy) admit(client, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuses || p.closed {
		return false
	}
	p.seen++
	p.open[client], p.open[server] = true, true
	return true
}

func (p *Proxy) forget(client, server net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, client)
	delete(p.open, server)
}

// pump copies until either end closes, and then closes both. It calls wait before it forwards data.
func (p *Proxy) pump(to, from net.Conn, wait func()) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		wait()
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *Proxy) gate() chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.flow
}

func (p *Proxy) answerGate() chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answers
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
