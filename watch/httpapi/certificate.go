package httpapi

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
)

// certificate is a TLS certificate with its key. Both files are read again when they are replaced.
type certificate struct{ reloadedFile[*tls.Certificate] }

// readCertificate reads a certificate and its key for the first time.
func readCertificate(cert, key string, log *slog.Logger) (*certificate, error) {
	c := &certificate{}
	c.what, c.log = "the certificate", log
	c.read = func() (*tls.Certificate, []byte, error) { return readPair(cert, key) }
	return c, c.open()
}

func readPair(cert, key string) (pair *tls.Certificate, contents []byte, err error) {
	certText, err := readSmall(cert)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate: %w", err)
	}
	keyText, err := readSmall(key)
	if err != nil {
		return nil, nil, fmt.Errorf("key: %w", err)
	}
	read, err := tls.X509KeyPair(certText, keyText)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate %s with key %s: %w", cert, key, err)
	}
	return &read, bytes.Join([][]byte{certText, keyText}, []byte{0}), nil
}

// get implements tls.Config.GetCertificate.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current(), nil }
