package load

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// Connection contains the addresses and credentials of a ZooKeeper.
type Connection struct {
	Hosts         string // host:port, separated by commas
	CA, Cert, Key string // files
}

// client is one connection, which all clients of a run share as the threads of a Zuul do. It counts the packets that it
// sends.
type client struct {
	conn *zk.Conn
	sent atomic.Int64
}

func connect(ctx context.Context, o Connection) (*client, error) {
	config, err := o.tls()
	if err != nil {
		return nil, err
	}
	dial := func(network, address string, timeout time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		return (&tls.Dialer{Config: config}).DialContext(ctx, network, address)
	}
	conn, events, err := zk.Connect(strings.Split(o.Hosts, ","), 30*time.Second, zk.WithDialer(dial), zk.WithLogInfo(false))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", o.Hosts, err)
	}
	limit := time.After(30 * time.Second)
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return &client{conn: conn}, nil
			}
		case <-ctx.Done():
			conn.Close()
			return nil, ctx.Err()
		case <-limit:
			conn.Close()
			return nil, fmt.Errorf("connect to %s: no session within 30 s; does it run, and does it know the certificate %s?", o.Hosts, o.Cert)
		}
	}
}

func (o Connection) tls() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
	if err != nil {
		return nil, err
	}
	pem, err := os.ReadFile(o.CA)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("no certificate in %s", o.CA)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12}, nil
}

func (c *client) close() { c.conn.Close() }

func (c *client) get(path string) ([]byte, error) {
	c.sent.Add(1)
	data, _, err := c.conn.Get(path)
	return data, at(path, err)
}

func (c *client) getWatch(path string) ([]byte, <-chan zk.Event, error) {
	c.sent.Add(1)
	data, _, changed, err := c.conn.GetW(path)
	return data, changed, at(path, err)
}

func (c *client) write(path string, data []byte) error {
	c.sent.Add(1)
	_, err := c.conn.Set(path, data, -1)
	return at(path, err)
}

func (c *client) create(path string, data []byte, flags int32) (string, error) {
	c.sent.Add(1)
	made, err := c.conn.Create(path, data, flags, zk.WorldACL(zk.PermAll))
	return made, at(path, err)
}

func (c *client) children(path string) ([]string, error) {
	c.sent.Add(1)
	names, _, err := c.conn.Children(path)
	return names, at(path, err)
}

func (c *client) delete(path string) error {
	c.sent.Add(1)
	return at(path, c.conn.Delete(path, -1))
}

func at(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", path, err)
}
