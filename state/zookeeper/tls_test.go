package zookeeper

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
)

func TestOnlyTheConfiguredAuthorityIsTrusted(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testutil.Must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "private"}, NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	testutil.Must(t, err)
	authority, err := x509.ParseCertificate(der)
	testutil.Must(t, err)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	testutil.Must(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	want := x509.NewCertPool()
	want.AddCert(authority)
	for _, anyName := range []bool{false, true} {
		got, err := (&TLS{CA: ca, AnyName: anyName}).config()
		if err != nil || !got.RootCAs.Equal(want) {
			t.Errorf("AnyName %t: other authorities are trusted besides the configured one (%v)", anyName, err)
		}
	}
	if _, err := (&TLS{AnyName: true}).config(); err == nil {
		t.Error("servers of any name are trusted with certificates of any public authority")
	}
}
