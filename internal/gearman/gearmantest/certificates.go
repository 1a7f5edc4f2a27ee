package gearmantest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
)

// Certificates are the paths of PEM files: an authority, and a certificate of it for 127.0.0.1 for servers and
// clients.
type Certificates struct{ CA, Cert, Key string }

// NewCertificates creates certificates below the test's temporary directory.
func NewCertificates(t testing.TB) Certificates {
	t.Helper()
	dir := t.TempDir()
	certs := Certificates{filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	authority := template("authority")
	authority.IsCA, authority.BasicConstraintsValid = true, true
	authority.KeyUsage = x509.KeyUsageCertSign
	authorityKey := newKey(t)
	sign(t, certs.CA, authority, authority, authorityKey, authorityKey)
	leaf := template("npctl test")
	leaf.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	key := newKey(t)
	sign(t, certs.Cert, leaf, authority, key, authorityKey)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	testutil.Must(t, err)
	write(t, certs.Key, "PRIVATE KEY", der)
	return certs
}

// Server returns the configuration of a server that requires a client certificate.
func (c Certificates) Server(t testing.TB) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	testutil.Must(t, err)
	authority, err := os.ReadFile(c.CA)
	testutil.Must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
}

func template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testutil.Must(t, err)
	return key
}

func sign(t testing.TB, path string, cert, by *x509.Certificate, key, byKey *ecdsa.PrivateKey) {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, by, &key.PublicKey, byKey)
	testutil.Must(t, err)
	write(t, path, "CERTIFICATE", der)
}

func write(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	testutil.Must(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}
