// Package sshserver serves SSH for machines that do not exist: one listener represents all of them, each with its
// own host keys, selected by the destination address. The owner of a Machine implements its commands.
package sshserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// Limits of clients.
const (
	maxConnections = 1024
	loginLimit     = 20 * time.Second // from the connection to the login
	idleLimit      = 10 * time.Minute // without a byte from the client
)

// Machine is the server at an address.
type Machine struct {
	Name     string
	HostKeys []ssh.Signer
	// Allowed reports whether a key may log in; nil permits every login, also without a key.
	Allowed func(user string, key ssh.PublicKey) bool
	// Run executes a command and returns its exit status, or HangUp. It ends soon after ctx, which ends when the
	// client disconnects.
	Run func(ctx context.Context, command Command) int
}

// HangUp is returned by Machine.Run to cut the connection, like a machine that shuts down.
const HangUp = -1

// Results of Machine.Run for a command that a signal has ended.
const (
	EndedByTERM = -15
	EndedByKILL = -9
)

// signals are the signal names in the protocol.
var signals = map[int]string{EndedByTERM: "TERM", EndedByKILL: "KILL"}

// Server serves SSH for machines.
type Server struct {
	// Find returns the machine at the destination address. It may wait, until ctx ends, to emulate a slow one. If
	// there is none the connection is closed.
	Find func(ctx context.Context, local net.Addr) (Machine, bool)
	Log  *slog.Logger // nil: no log
}

// Serve serves connections until ctx ends, and returns when all of them are closed.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var connections sync.WaitGroup
	defer connections.Wait()
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	free := make(chan struct{}, maxConnections)
	for {
		conn, err := listener.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept SSH connections: %w", err)
		case err != nil: // such as too many open files
			pause(ctx, 100*time.Millisecond)
			continue
		}
		select {
		case free <- struct{}{}:
			connections.Go(func() {
				defer func() { <-free }()
				s.connection(ctx, conn)
			})
		default:
			_ = conn.Close()
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// connection handles one client, from the handshake to the end.
func (s *Server) connection(ctx context.Context, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	machine, found := s.Find(ctx, conn.LocalAddr())
	if !found || len(machine.HostKeys) == 0 {
		return
	}
	guarded := &patient{Conn: conn, limit: loginLimit}
	client, channels, requests, err := ssh.NewServerConn(guarded, machine.config())
	if err != nil {
		return // a scanner, a wrong key
	}
	guarded.wait(idleLimit)
	s.log("ssh login", machine, client)
	var sessions sync.WaitGroup
	defer sessions.Wait()
	defer cancel()
	go ssh.DiscardRequests(requests) // answers keepalives, and ends with the connection
	for incoming := range channels {
		if incoming.ChannelType() != "session" {
			_ = incoming.Reject(ssh.UnknownChannelType, "only session channels are supported")
			continue
		}
		channel, asked, err := incoming.Accept()
		if err != nil {
			continue
		}
		sessions.Go(func() { (&session{machine, client.User(), channel, func() { _ = conn.Close() }}).serve(ctx, asked) })
	}
}

func (m Machine) config() *ssh.ServerConfig {
	config := &ssh.ServerConfig{ServerVersion: "SSH-2.0-npctl-test", MaxAuthTries: 6}
	if m.Allowed == nil {
		config.NoClientAuth = true
	} else {
		config.PublicKeyCallback = func(who ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if !m.Allowed(who.User(), key) {
				return nil, errors.New("unknown key")
			}
			return &ssh.Permissions{}, nil
		}
	}
	for _, key := range m.HostKeys {
		config.AddHostKey(key)
	}
	return config
}

func (s *Server) log(message string, m Machine, client ssh.ConnMetadata) {
	if s.Log != nil {
		s.Log.Debug(message, "server", m.Name, "user", client.User(), "from", client.RemoteAddr().String())
	}
}

// patient is a connection with a read timeout, so that its client must send data regularly.
type patient struct {
	net.Conn
	mu    sync.Mutex
	limit time.Duration // guarded by mu
}

func (p *patient) wait(limit time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = limit
	_ = p.SetReadDeadline(time.Now().Add(limit))
}

// Read implements net.Conn.
func (p *patient) Read(b []byte) (int, error) {
	p.mu.Lock()
	_ = p.SetReadDeadline(time.Now().Add(p.limit))
	p.mu.Unlock()
	return p.Conn.Read(b)
}
