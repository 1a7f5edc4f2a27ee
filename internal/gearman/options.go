package gearman

import (
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

// Options say how servers are reached. Only Servers is required.
type Options struct {
	Servers []string    // host or host:port; the port is 4730 when not written
	TLS     *tls.Config // nil means plain text; with it, plain text is never spoken
	// Name is shown by the servers' listing of workers.
	Name string
	Log  *slog.Logger

	DialTimeout time.Duration // of a connection with its TLS handshake; 10 s when 0
	KeepAlive   time.Duration // a server that is quiet for so long is asked, and given up after twice the time; 30 s when 0
	Check       time.Duration // how often a client asks after its job; 15 s when 0
	MaxPacket   int           // bytes; 16 MiB when 0
	// Drain is how long jobs in hand may go on after a worker was told to stop. After that they are stopped and left to
	// other workers.
	Drain time.Duration
	// Retry is the longest a worker waits before it tries a server again that it has lost; Check when 0.
	Retry time.Duration
	// Settle is how long a worker that has a lost server again waits before it offers its functions there.
	Settle time.Duration
}

// Port is where servers listen when nothing else is said.
const Port = "4730"

func (o Options) withDefaults() Options {
	o.DialTimeout = orElse(o.DialTimeout, 10*time.Second)
	o.KeepAlive = orElse(o.KeepAlive, 30*time.Second)
	o.Check = orElse(o.Check, 15*time.Second)
	o.Retry = orElse(o.Retry, o.Check)
	o.MaxPacket = orElse(o.MaxPacket, 16<<20)
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

func orElse[T comparable](value, other T) T {
	var zero T
	if value == zero {
		return other
	}
	return value
}

// address adds the port where there is none.
func address(server string) string {
	if _, _, err := net.SplitHostPort(server); err == nil {
		return server
	}
	return net.JoinHostPort(strings.Trim(server, "[]"), Port)
}

// LoadTLS reads what is needed for TLS from PEM files: the authorities that are trusted, and this side's certificate
// and key, both of which may be empty.
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
