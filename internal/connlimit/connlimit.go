// Package connlimit limits the connections of a listener, in total and for each client address, so that one client cannot
// block the others.
//
// A new connection above a limit replaces the connection that has been idle for the longest time: first among those of the
// same address, then among those of the address with the most connections. If none is idle, the new connection is closed.
// A connection with a request in progress is never closed. Serve ends a server without dropping requests.
package connlimit

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// ipv6Network is the prefix length of the IPv6 network that counts as one client.
const ipv6Network = 64

// Listen limits the connections that l accepts. The server on l must have ConnState as its hook, which reports idle
// connections, as Serve gives it.
func Listen(l net.Listener, total, perClient int) net.Listener {
	return &listener{Listener: l, total: total, perClient: perClient, conns: map[netip.Addr]map[*conn]struct{}{}}
}

// Client returns the key that identifies a client in limits: an IPv4 address or an IPv6 network.
func Client(remote string) netip.Addr {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	addr := at.Addr().Unmap().WithZone("")
	if addr.Is6() {
		if network, err := addr.Prefix(ipv6Network); err == nil {
			return network.Addr()
		}
	}
	return addr
}

// ConnState is a hook for http.Server.ConnState. It ignores connections of other listeners.
func ConnState(c net.Conn, s http.ConnState) {
	if wrapped, ok := c.(*tls.Conn); ok {
		c = wrapped.NetConn()
	}
	if limited, ok := c.(*conn); ok {
		limited.setIdle(s == http.StateIdle)
	}
}

type listener struct {
	net.Listener
	total, perClient int

	mu    sync.Mutex // guards the following fields and the fields of connections
	conns map[netip.Addr]map[*conn]struct{}
	count int
}

// conn is an accepted connection.
type conn struct {
	net.Conn
	of     *listener
	client netip.Addr

	idleSince time.Time // zero while a request is in progress; guarded by of.mu
	closed    bool      // guarded by of.mu
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: raw, of: l, client: Client(raw.RemoteAddr().String())}
		evicted, admitted := l.admit(c)
		if evicted != nil {
			_ = evicted.Conn.Close() // no request is in progress
		}
		if admitted {
			return c, nil
		}
		_ = raw.Close() // it was never used
	}
}

// admit adds a connection if there is capacity, or replaces the longest idle one, which the caller has to close.
func (l *listener) admit(c *conn) (evicted *conn, admitted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(l.conns[c.client]) >= l.perClient:
		evicted = longestIdle(l.conns[c.client])
	case l.count >= l.total:
		evicted = l.longestIdle()
	default:
		l.add(c)
		return nil, true
	}
	if evicted == nil {
		return nil, false
	}
	l.remove(evicted)
	l.add(c)
	return evicted, true
}

func (l *listener) add(c *conn) {
	if l.conns[c.client] == nil {
		l.conns[c.client] = map[*conn]struct{}{}
	}
	l.conns[c.client][c] = struct{}{}
	l.count++
}

// remove removes a connection. The caller holds mu.
func (l *listener) remove(c *conn) {
	if c.closed {
		return
	}
	c.closed = true
	l.count--
	if delete(l.conns[c.client], c); len(l.conns[c.client]) == 0 {
		delete(l.conns, c.client)
	}
}

// longestIdle returns an idle connection of the client that has the most connections, among the clients with an idle one.
func (l *listener) longestIdle() (found *conn) {
	most := 0
	for _, of := range l.conns {
		if len(of) <= most {
			continue
		}
		if c := longestIdle(of); c != nil {
			found, most = c, len(of)
		}
	}
	return found
}

func longestIdle(conns map[*conn]struct{}) (found *conn) {
	for c := range conns {
		if !c.idleSince.IsZero() && (found == nil || c.idleSince.Before(found.idleSince)) {
			found = c
		}
	}
	return found
}

func (c *conn) setIdle(idle bool) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.idleSince = (time.Time{}); idle {
		c.idleSince = time.Now()
	}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.of.mu.Lock()
	c.of.remove(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
