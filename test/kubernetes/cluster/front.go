package cluster

import (
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"testing"
)

// Front serves a plain HTTP server by TLS, because clients of Kubernetes send tokens by TLS only. It returns its URL and
// the file with its certificate.
func Front(t *testing.T, plain string) (address, ca string) {
	t.Helper()
	target, err := url.Parse(plain)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	server := httptest.NewTLSServer(proxy)
	t.Cleanup(server.Close)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, encoded(server.Certificate()), 0o600); err != nil {
		t.Fatal(err)
	}
	return server.URL, ca
}

func encoded(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
}
