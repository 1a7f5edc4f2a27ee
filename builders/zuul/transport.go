package zuul

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"

	"github.com/npctl/npctl/internal/fetch"
	"github.com/npctl/npctl/internal/host"
)

const pemLimit = 4 << 20

// transport uses different connections for Zuul's host and for other hosts: only Zuul's host receives the client
// certificate and must have a certificate of the configured authorities; other hosts, to which artifacts refer, may use
// those authorities or the system's.
type transport struct {
	host        string
	zuul, other connections
}

// connections is an http.Transport or a wrapper that restricts one.
type connections interface {
	http.RoundTripper
	CloseIdleConnections()
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == t.host {
		return t.zuul.RoundTrip(r)
	}
	return t.other.RoundTrip(r)
}

// CloseIdleConnections is called by http.Client.
func (t *transport) CloseIdleConnections() {
	t.zuul.CloseIdleConnections()
	t.other.CloseIdleConnections()
}

// newTransports returns the transports of the API and of downloads. Because a job chooses the addresses of downloads,
// downloads from hosts other than Zuul's may not connect to npctl's own host, unless that is allowed.
func newTransports(s settings) (api, artifacts *transport, err error) {
	zuul, elsewhere, err := connect(s)
	if err != nil {
		return nil, nil, err
	}
	api = &transport{s.root.Host, zuul, elsewhere}
	if s.LocalArtifacts {
		return api, api, nil
	}
	return api, &transport{s.root.Host, zuul, fetch.Guard(elsewhere)}, nil
}

func connect(s settings) (zuul, elsewhere *http.Transport, err error) {
	if s.TLS.CA == "" {
		both := fetch.NewTransport(nil)
		return both, both, nil
	}
	text, err := host.ReadFile(s.TLS.CA, pemLimit)
	if err != nil {
		return nil, nil, fmt.Errorf("tls: ca: %w", err)
	}
	own := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	others := &tls.Config{MinVersion: tls.VersionTLS12}
	if others.RootCAs, err = x509.SystemCertPool(); err != nil {
		return nil, nil, fmt.Errorf("certificates of the system: %w", err)
	}
	for _, pool := range []*x509.CertPool{own.RootCAs, others.RootCAs} {
		if !pool.AppendCertsFromPEM(text) {
			return nil, nil, fmt.Errorf("tls: ca: %s contains no PEM certificate", s.TLS.CA)
		}
	}
	if s.TLS.Cert != "" {
		pair, err := tls.LoadX509KeyPair(s.TLS.Cert, s.TLS.Key)
		if err != nil {
			return nil, nil, fmt.Errorf("tls: cert and key: %w", err)
		}
		own.Certificates = []tls.Certificate{pair}
	}
	return fetch.NewTransport(own), fetch.NewTransport(others), nil
}
