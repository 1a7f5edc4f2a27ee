package zookeeper

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// dialer opens connections for the client library and keeps the last error.
type dialer struct {
	paths   []string     // paths to watch
	heard   atomic.Int64 // see watchConn.lastHeard
	granted atomic.Int64 // session timeout that the server granted, in nanoseconds
	zxid    atomic.Int64 // of the newest transaction that an answer has named

	turnedAway atomic.Bool // the server closed the newest connection instead of accepting the session
	endSession atomic.Bool // the next connection tells the library that its session has ended

	mu      sync.Mutex // guards the fields below
	tls     *TLS       // nil for plain text; each connection reads the files again
	current net.Conn   // the newest connection
	failure error      // error of the last attempt; nil after a connection was made
	refused bool       // retrying is useless
}

// dial is the library's dial function. It includes the TLS handshake, so that the dialer sees its errors.
func (d *dialer) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	if d.endSession.Swap(false) {
		return newEndedSession(), nil
	}
	timeout = max(timeout, 3*time.Second) // the library's one second is too short for a distant handshake
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, d.fail(address, err)
	}
	if conn, err = d.secure(ctx, conn, address); err != nil {
		return nil, d.fail(address, err)
	}
	c := &watchConn{Conn: conn, paths: d.paths, lastHeard: &d.heard, granted: &d.granted, zxid: &d.zxid}
	c.fail = func(err error) {
		d.turnedAway.Store(!c.connectAnswered)
		_ = d.fail(address, err)
	}
	return c, nil
}

// secure makes a connection the current one, with TLS if it is configured.
func (d *dialer) secure(ctx context.Context, conn net.Conn, address string) (net.Conn, error) {
	d.mu.Lock()
	files := d.tls
	d.current = conn
	d.mu.Unlock()
	if files == nil {
		return conn, nil
	}
	config, err := files.config()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	config.ServerName, _, _ = net.SplitHostPort(address)
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return secure, nil
}

// use uses other files for the next connections, and reports whether they differ from the present ones.
func (d *dialer) use(files *TLS) (changed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	changed = !reflect.DeepEqual(d.tls, files)
	d.tls, d.failure, d.refused = files, nil, false
	return changed
}

// files returns the TLS files of the next connections.
func (d *dialer) files() *TLS {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tls
}

// disconnect closes the current connection. The library connects again, in the same session.
func (d *dialer) disconnect() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current != nil {
		_ = d.current.Close()
	}
}

func (d *dialer) fail(address string, err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failure = explain(address, err); d.turnedAway.Load() && d.granted.Load() > 0 {
		d.failure = fmt.Errorf("connect to ZooKeeper at %s: the server does not accept the session: it does not serve clients yet, or its data is older than the data that npctl has seen: %w", address, err)
	}
	if permanent(err) {
		d.refused = true
	}
	return err
}

// connected clears the last error.
func (d *dialer) connected() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failure, d.refused = nil, false
	d.turnedAway.Store(false)
	d.endSession.Store(false) // this session serves
}

// last returns the last error and whether retrying is useless.
func (d *dialer) last() (error, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failure, d.refused
}

// permanent reports whether only an operator can fix an error.
func permanent(err error) bool {
	var name x509.HostnameError
	var authority x509.UnknownAuthorityError
	var alert tls.AlertError
	return errors.As(err, &name) || errors.As(err, &authority) || errors.As(err, &alert) || errors.Is(err, errNoWatch) ||
		strings.Contains(err.Error(), "remote error: tls:")
}

// explain adds advice to an error.
func explain(address string, err error) error {
	var name x509.HostnameError
	var authority x509.UnknownAuthorityError
	var header tls.RecordHeaderError
	what := fmt.Errorf("connect to ZooKeeper at %s: %w", address, err)
	switch {
	case errors.As(err, &name):
		return fmt.Errorf("%w: use the host name in the server certificate, or set verify_host_names = false, as Nodepool does", what)
	case errors.As(err, &authority):
		return fmt.Errorf("%w: set ca to the file of the authority that signed the server's certificate", what)
	case errors.As(err, &header):
		return fmt.Errorf("%w: the port does not use TLS; the usual ports are 2281 for TLS and 2181 for plain text", what)
	case strings.Contains(err.Error(), "remote error: tls:"):
		return fmt.Errorf("%w: the server rejects the client certificate; use one that an authority in its truststore signed", what)
	case errors.Is(err, errNoWatch):
		return what
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET): // the server did not accept the first packet
		return fmt.Errorf("%w: the server closed the connection; check the port: it is usually 2281 for TLS and 2181 for plain text", what)
	}
	return fmt.Errorf("%w: check that the server runs and the address is right", what)
}

// hosts returns the servers in turn, starting with a random one. It keeps host names, because certificates are checked
// against them.
type hosts struct {
	mu      sync.Mutex // guards the fields below
	servers []string
	next    int
	tried   int // since the last connection
}

// Init implements zk.HostProvider.
func (h *hosts) Init(servers []string) error {
	h.use(servers)
	return nil
}

// use replaces the servers.
func (h *hosts) use(servers []string) {
	servers = slices.Clone(servers)
	rand.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	h.mu.Lock()
	defer h.mu.Unlock()
	h.servers, h.next, h.tried = servers, 0, 0
}

// list returns the servers.
func (h *hosts) list() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.servers)
}

// Len implements zk.HostProvider.
func (h *hosts) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.servers)
}

// Next implements zk.HostProvider. After a round without success the library waits for one second.
func (h *hosts) Next() (server string, retryStart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	server = h.servers[h.next]
	h.next = (h.next + 1) % len(h.servers)
	h.tried++
	return server, h.tried > len(h.servers)
}

// Connected implements zk.HostProvider.
func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tried = 0
}
