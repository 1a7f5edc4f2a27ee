package zuul

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"

	"github.com/npctl/npctl/internal/fetch"
)

const pemLimit = 4 << 20

// transport treats Zuul itself and everybody else differently: only Zuul's host gets to see who we are, and is held to
// the authorities that are configured; other hosts, which artifacts lead to, may have those or the system's.
type transport struct {
	host            string
	zuul, elsewhere connections
}

// connections is an http.Transport, or what guards one.
type connections interface {
	http.RoundTripper
	CloseIdleConnections()
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == t.host {
		return t.zuul.RoundTrip(r)
	}
	return t.elsewhere.RoundTrip(r)
}

// CloseIdleConnections is called by http.Client.
func (t *transport) CloseIdleConnections() {
	t.zuul.CloseIdleConnections()
	t.elsewhere.CloseIdleConnections()
}

// newTransports returns those of the API and of downloads. A job chooses the addresses of downloads, so that on other hosts
// than Zuul's they keep away from npctl's own host, unless that is allowed.
func newTransports(s settings) (api, artifacts *transport, err error) {
	zuul, elsewhere, err := connect(s)
	if err != nil {
		return nil, nil, err
	}
	api = &transport{s.root.Host, zuul, elsewhere}
	if s.local {
		return api, api, nil
	}
	return api, &transport{s.root.Host, zuul, fetch.Guard(elsewhere)}, nil
}

func connect(s settings) (zuul, elsewhere *http.Transport, err error) {
	if s.tls.ca == "" {
		both := fetch.NewTransport(nil)
		return both, both, nil
	}
	text, err := readLimited(s.tls.ca, pemLimit)
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
			return nil, nil, fmt.Errorf("tls: ca: %s holds no certificate in PEM", s.tls.ca)
		}
	}
	if s.tls.cert != "" {
		pair, err := tls.LoadX509KeyPair(s.tls.cert, s.tls.key)
		if err != nil {
			return nil, nil, fmt.Errorf("tls: cert and key: %w", err)
		}
		own.Certificates = []tls.Certificate{pair}
	}
	return fetch.NewTransport(own), fetch.NewTransport(others), nil
}
