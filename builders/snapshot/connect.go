package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/internal/process"
	"github.com/npctl/npctl/internal/waits"
)

const (
	sshPort           = 22
	dialLimit         = 10 * time.Second // of one attempt to connect
	loginLimit        = 30 * time.Second // of one handshake; servers may wait for DNS
	firstPause        = 200 * time.Millisecond
	longestPause      = 5 * time.Second
	keepaliveInterval = 15 * time.Second      // between keepalive requests
	keepaliveTimeout  = 4 * keepaliveInterval // without data, after which a connection is dead
)

// connection is an SSH connection to the instance.
type connection struct {
	client        *ssh.Client
	user, address string
	gone          chan struct{} // closed when the connection has ended
	stop          func() bool
	running       sync.WaitGroup
}

// connect retries until a login succeeds or connect_timeout has passed. An instance that has just booted refuses
// connections at first, and then keys, until its first boot has installed them.
func (b *build) connect(ctx context.Context, machine builders.Instance) (*connection, error) {
	config, address, keys, err := b.dialling(machine)
	if err != nil {
		return nil, err
	}
	b.report("waiting for SSH at "+address, 0, 0)
	b.logf("waiting for SSH at %s as %s", address, config.User)
	waiting, cancel := context.WithTimeout(ctx, b.ConnectTimeout)
	defer cancel()
	var last error
	for wait := firstPause; ; wait = min(2*wait, longestPause) {
		client, err := dial(waiting, address, config)
		if err == nil {
			b.logf("logged in; %s", keys.description())
			return b.connected(ctx, client, config.User, address), nil
		}
		if last == nil || waiting.Err() == nil { // keep the earlier error if the timeout interrupted this attempt
			last = err
		}
		if keys.refused == nil && waits.Sleep(waiting, wait) == nil {
			continue
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("wait for SSH at %s: %w", address, stopped(ctx, last))
		}
		b.console(ctx, machine)
		if keys.refused != nil {
			return nil, keys.refused
		}
		return nil, fmt.Errorf("no login as %s at %s within %s (connect_timeout): %w%s", config.User, address, b.ConnectTimeout, last, hint(last))
	}
}

// dialling returns the SSH configuration, the address and the host keys for a login.
func (b *build) dialling(machine builders.Instance) (*ssh.ClientConfig, string, *hostKeys, error) {
	its := machine.Login()
	if kind := its.ConnectionType; kind != "" && kind != "ssh" {
		return nil, "", nil, fmt.Errorf("nodes of label %s are reached by %s, but this builder supports only SSH: choose a label whose image has connection_type = \"ssh\"", b.Label, kind)
	}
	user := cmp.Or(b.Username, its.Username)
	if user == "" {
		return nil, "", nil, fmt.Errorf("the image of label %s has no username: set username", b.Label)
	}
	port := cmp.Or(b.Port, its.ConnectionPort, sshPort)
	keys := newHostKeys(b.hostKeys, machine.HostKeys())
	config := &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(b.key)}, HostKeyCallback: keys.check, HostKeyAlgorithms: keys.algorithms(),
		ClientVersion: "SSH-2.0-npctl",
	}
	return config, net.JoinHostPort(machine.Address(), strconv.FormatInt(port, 10)), keys, nil
}

// dial makes one attempt.
func dial(ctx context.Context, address string, config *ssh.ClientConfig) (*ssh.Client, error) {
	dialling, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(dialling, "tcp", address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	alive := &idleTimeoutConn{Conn: conn}
	alive.allow(loginLimit)
	client, channels, requests, err := ssh.NewClientConn(alive, address, config)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	alive.allow(keepaliveTimeout)
	return ssh.NewClient(client, channels, requests), nil
}

// connected monitors a connection: it ends when ctx is done or the instance no longer responds.
func (b *build) connected(ctx context.Context, client *ssh.Client, user, address string) *connection {
	c := &connection{client: client, user: user, address: address, gone: make(chan struct{})}
	c.stop = context.AfterFunc(ctx, func() { _ = client.Close() })
	c.running.Go(func() {
		_ = client.Wait()
		close(c.gone)
	})
	c.running.Go(func() {
		tick := time.NewTicker(keepaliveInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_, _, _ = client.SendRequest("keepalive@openssh.com", true, nil) // any answer proves that the instance responds
			case <-c.gone:
				return
			}
		}
	})
	return c
}

// Close closes the connection and waits for its goroutines.
func (c *connection) Close() error {
	c.stop()
	err := c.client.Close()
	c.running.Wait()
	return err
}

// idleTimeoutConn is a connection that fails when it has received nothing for too long.
type idleTimeoutConn struct {
	net.Conn
	mu    sync.Mutex
	limit time.Duration // guarded by mu
}

func (l *idleTimeoutConn) allow(limit time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = limit
	_ = l.SetReadDeadline(time.Now().Add(limit))
}

// Read implements net.Conn.
func (l *idleTimeoutConn) Read(p []byte) (int, error) {
	l.mu.Lock()
	_ = l.SetReadDeadline(time.Now().Add(l.limit))
	l.mu.Unlock()
	return l.Conn.Read(p)
}

func hint(err error) string {
	var network *net.OpError
	switch {
	case errors.As(err, &network), errors.Is(err, context.DeadlineExceeded):
		return "; check the console at the end of the log, the security groups of the label, and whether this host reaches the network"
	default:
		return "; does the instance have the public key of private_key_file? It comes from key_name of the label, from its userdata or from its image"
	}
}

// console adds the instance's console output to the log, often the only explanation of why it does not respond.
func (b *build) console(ctx context.Context, machine builders.Instance) {
	text := machine.Console(ctx)
	if text == "" {
		b.logf("the console of the instance is empty")
		return
	}
	b.logf("the console of the instance:")
	transcript := process.NewTranscript(process.Spec{Log: b.log, LogLimit: 256 << 10, Secrets: b.secrets})
	transcript.Read(strings.NewReader(text))
}
