// Package gearmantest is a gearman server for tests that behaves like gearmand 1.1.20 or like the Python gear server:
// Kind selects one where they differ. It supports only foreground jobs.
package gearmantest

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/npctl/npctl/internal/gearman"
)

// Kind selects the server implementation to emulate.
type Kind int

// The kinds of servers.
const (
	Gearmand Kind = iota
	Python
)

func (k Kind) String() string {
	if k == Python {
		return "python"
	}
	return "gearmand"
}

// Server is a gearman server on loopback.
type Server struct {
	kind     Kind
	listener net.Listener
	work     sync.WaitGroup

	mu     sync.Mutex
	peers  map[*peer]bool  // guarded by mu
	queue  []*job          // guarded by mu: in order of arrival
	jobs   map[string]*job // guarded by mu: by handle
	names  map[string]bool // guarded by mu: all functions since the start
	last   int             // guarded by mu: number of the last handle
	closed bool            // guarded by mu
	log    []string        // guarded by mu

	ignoreWithdrawals bool // guarded by mu
}

type job struct {
	handle, function, unique, data string
	clients                        []*peer
	worker                         *peer
	numerator, denominator         string
	abandoned                      bool // by all its clients, at some time
}

// peer is a connection.
type peer struct {
	net       net.Conn
	server    *Server
	name      string
	functions map[string]bool
	sleeping  bool
	options   bool
	writing   sync.Mutex
}

// Start starts a server that is stopped at the end of the test.
func Start(t testing.TB, kind Kind) *Server { return start(t, kind, "127.0.0.1:0", nil) }

// StartTLS starts a server that uses TLS.
func StartTLS(t testing.TB, kind Kind, config *tls.Config) *Server {
	return start(t, kind, "127.0.0.1:0", config)
}

// Again starts a server at the address of an earlier one.
func Again(t testing.TB, kind Kind, addr string) *Server { return start(t, kind, addr, nil) }

func start(t testing.TB, kind Kind, addr string, config *tls.Config) *Server {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if config != nil {
		listener = tls.NewListener(listener, config)
	}
	s := &Server{kind: kind, listener: listener, peers: map[*peer]bool{}, jobs: map[string]*job{}, names: map[string]bool{}}
	s.work.Go(s.accept)
	t.Cleanup(s.Stop)
	return s
}

// Addr returns the address, host:port.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Stop closes everything, as if the server had been killed.
func (s *Server) Stop() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	_ = s.listener.Close()
	s.Drop("")
	s.work.Wait()
}

// Drop closes the connections with that name, or all.
func (s *Server) Drop(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.peers {
		if name == "" || p.name == name {
			_ = p.net.Close()
		}
	}
}

// Hold pauses packet handling until the returned function is called.
func (s *Server) Hold() (release func()) {
	s.mu.Lock()
	return s.mu.Unlock
}

// IgnoreWithdrawals makes the server assign jobs of functions that their workers have withdrawn, as if both packets were
// in transit at the same time.
func (s *Server) IgnoreWithdrawals() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ignoreWithdrawals = true
}

// Log lists the packets that connections with a name have sent, each as "name PACKET argument".
func (s *Server) Log() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.log...)
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		p := &peer{net: conn, server: s, functions: map[string]bool{}}
		s.mu.Lock()
		if s.closed {
			_ = conn.Close()
		}
		s.peers[p] = true
		s.mu.Unlock()
		s.work.Go(p.serve)
	}
}

const limit = 64 << 20

func (p *peer) serve() {
	defer p.gone()
	reader := bufio.NewReader(p.net)
	for {
		first, err := reader.Peek(1)
		if err != nil {
			return
		}
		if first[0] != 0 {
			line, err := reader.ReadString('\n')
			if err != nil {
				return
			}
			p.admin(line)
			continue
		}
		packet, err := gearman.ReadPacket(reader, limit)
		if err != nil {
			return
		}
		p.server.mu.Lock()
		p.take(packet)
		p.server.mu.Unlock()
	}
}

func (p *peer) write(bytes []byte) {
	p.writing.Lock()
	defer p.writing.Unlock()
	_, _ = p.net.Write(bytes)
}

func (p *peer) send(kind gearman.Type, args ...string) {
	p.write(gearman.Response(kind, args...).Append(nil))
}

func (s *Server) note(p *peer, packet gearman.Packet) {
	if p.name == "" {
		return
	}
	first := ""
	if len(packet.Args) > 0 {
		first = " " + packet.Args[0]
	}
	s.log = append(s.log, fmt.Sprintf("%s %s%s", p.name, packet.Type, first))
}
