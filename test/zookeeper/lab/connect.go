package lab

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// Connect returns a client with a session, independent of npctl and Zuul. The caller closes it.
func Connect(e Env) (*zk.Conn, error) {
	pair, err := tls.LoadX509KeyPair(e.Cert, e.Key)
	if err != nil {
		return nil, err
	}
	pem, err := os.ReadFile(e.CA)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	config := &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12}
	dial := func(network, address string, timeout time.Duration) (net.Conn, error) {
		dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: timeout}, Config: config}
		return dialer.DialContext(context.Background(), network, address)
	}
	conn, events, err := zk.Connect(strings.Split(e.Hosts, ","), 30*time.Second, zk.WithDialer(dial), zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	limit := time.After(30 * time.Second)
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return conn, nil
			}
		case <-limit:
			conn.Close()
			return nil, errors.New("no session within 30 s")
		}
	}
}

// IsLost reports whether a call of a client failed because its connection was lost or is not there yet: a repetition may succeed,
// and the call may have taken effect.
func IsLost(err error) bool {
	var broken net.Error // of the connection itself, such as a reset
	return errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrNoServer) || errors.As(err, &broken)
}
