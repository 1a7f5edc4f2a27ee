package zookeeper

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/npctl/npctl/internal/host"
)

// TLS names the files of the client certificate and of the trusted authorities.
type TLS struct {
	Cert, Key string // PEM files; ZooKeeper requires a client certificate by default
	CA        string // PEM file of the trusted authorities; the system's if empty
	// AnyName accepts a server certificate for another host, as Nodepool and Zuul do. The chain is verified in any case
	// and needs CA, because the system's authorities issue certificates to any owner of a name.
	AnyName bool
}

const maxPEM = 1 << 20 // bytes

// config loads the files.
func (t *TLS) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.Cert != "" || t.Key != "" {
		cert, err := host.ReadFile(t.Cert, maxPEM)
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		key, err := host.ReadFile(t.Key, maxPEM)
		if err != nil {
			return nil, fmt.Errorf("client key: %w", err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("client certificate %s with key %s: %w", t.Cert, t.Key, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if t.AnyName && t.CA == "" {
		return nil, errAnyNameOfAnyone
	}
	roots, err := t.roots()
	if err != nil {
		return nil, err
	}
	c.RootCAs = roots
	if t.AnyName {
		c.InsecureSkipVerify = true // the standard library's way to replace the verification; see VerifyConnection
		c.VerifyConnection = func(s tls.ConnectionState) error { return verifyChain(s, roots) }
	}
	return c, nil
}

var errAnyNameOfAnyone = errors.New("verify_host_names = false needs ca: without it, a certificate of any public authority for any host would be accepted")

// roots returns the configured authorities, or the system's without any.
func (t *TLS) roots() (*x509.CertPool, error) {
	if t.CA == "" {
		pool, err := x509.SystemCertPool()
		if err != nil {
			return nil, fmt.Errorf("certificate authorities of the system: %w", err)
		}
		return pool, nil
	}
	text, err := host.ReadFile(t.CA, maxPEM)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("certificate authority %s: the file contains no certificate", t.CA)
	}
	return pool, nil
}

// verifyChain verifies the chain as the standard library does, without the host name.
func verifyChain(s tls.ConnectionState, roots *x509.CertPool) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("the server sent no certificate")
	}
	between := x509.NewCertPool()
	for _, cert := range s.PeerCertificates[1:] {
		between.AddCert(cert)
	}
	_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
	return err
}
