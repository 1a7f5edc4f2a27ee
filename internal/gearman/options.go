package gearman

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"
)

// Options configure the connections to servers. Only Servers is required.
type Options struct {
	Servers []string    // host or host:port; the default port is 4730
	TLS     *tls.Config // nil means plain text; otherwise plain text is never used
	// Name appears in the servers' listings of workers.
	Name string
	Log  *slog.Logger

	DialTimeout time.Duration // of a connection with its TLS handshake; 10 s when 0
	KeepAlive   time.Duration // time after which a silent server is pinged; after twice the time it is given up; 30 s when 0
	Check       time.Duration // interval at which a client queries the status of its job; 15 s when 0
	MaxPacket   int           // bytes; 16 MiB when 0
	// Drain is the time that active jobs have to end after a worker is stopped. After it they are aborted and left to
	// other workers.
	Drain time.Duration
	// Retry is the maximum time before a worker reconnects to a lost server; Check when 0.
	Retry time.Duration
	// Settle is the time that a worker waits after a reconnection before it offers its functions.
	Settle time.Duration
	// Withdrawn handles jobs that a server had already sent when the worker withdrew their function. When it is nil,
	// they fail.
	Withdrawn Handler
}

// defaultPort is the default port of servers.
const defaultPort = "4730"

func (o Options) withDefaults() Options {
	o.DialTimeout = cmp.Or(o.DialTimeout, 10*time.Second)
	o.KeepAlive = cmp.Or(o.KeepAlive, 30*time.Second)
	o.Check = cmp.Or(o.Check, 15*time.Second)
	o.Retry = cmp.Or(o.Retry, o.Check)
	o.MaxPacket = cmp.Or(o.MaxPacket, 16<<20)
	if o.Withdrawn == nil {
		o.Withdrawn = func(context.Context, *Task) ([]byte, error) { return nil, ErrFailed }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	servers := make([]string, len(o.Servers))
	for n, server := range o.Servers {
		servers[n] = address(server)
	}
	o.Servers = servers
	return o
}

// address adds the default port if there is none.
func address(server string) string {
	if _, _, err := net.SplitHostPort(server); err == nil {
		return server
	}
	return net.JoinHostPort(strings.Trim(server, "[]"), defaultPort)
}

// LoadTLS reads the TLS configuration from PEM files: the trusted authorities, and this side's certificate and key,
// which may both be empty.
func LoadTLS(ca, cert, key string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("read certificates of authorities: %w", err)
	}
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate in PEM format", ca)
	}
	if cert == "" && key == "" {
		return config, nil
	}
	if cert == "" || key == "" {
		return nil, errors.New("a certificate needs its key, and a key its certificate: give both or none")
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("load certificate %s with key %s: %w", cert, key, err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}
