package httpapi

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
)

// due makes the next use read the files.
func (r *reloadedFile[T]) due() { r.checked = time.Time{} }

func TestChangesWithinOneClockTickAreDetected(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	write := func(token string) {
		testutil.WriteFile(t, path, "ci full "+token+"\n")
		testutil.Must(t, os.Chtimes(path, time.Unix(1e9, 0), time.Unix(1e9, 0)))
	}
	const before, after = "token-number-one-of-many", "token-number-two-of-many"
	write(before)
	tokens, err := ReadTokens(path, nil)
	testutil.Must(t, err)
	write(after)
	tokens.due()
	if _, role := tokens.find(before); role != anonymous {
		t.Error("a token is valid that was replaced by one of the same length at the same time")
	}
	if _, role := tokens.find(after); role != full {
		t.Error("its successor is not valid")
	}
}

func TestDeletedTokenFileRevokesAllTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	const token = "token-number-one-of-many"
	text := []byte("ci full " + token + "\n")
	testutil.Must(t, os.WriteFile(path, text, 0o600))
	var log bytes.Buffer
	tokens, err := ReadTokens(path, slog.New(slog.NewTextHandler(&log, nil)))
	testutil.Must(t, err)
	testutil.Must(t, os.Remove(path))
	for range 2 {
		tokens.due()
		if _, role := tokens.find(token); role != anonymous {
			t.Error("a token is valid whose file is gone")
		}
	}
	if n := strings.Count(log.String(), "no token is valid"); n != 1 {
		t.Errorf("it is logged %d times:\n%s", n, &log)
	}
	testutil.Must(t, os.WriteFile(path, text, 0o600))
	tokens.due()
	if _, role := tokens.find(token); role != full {
		t.Error("the file is there again, and the token is not valid")
	}
}

func TestUnreadableCertificateIsLogged(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testutil.Must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	testutil.Must(t, err)
	secret, err := x509.MarshalECPrivateKey(private)
	testutil.Must(t, err)
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: secret}} {
		testutil.Must(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	}
	var log bytes.Buffer
	c, err := readCertificate(cert, key, slog.New(slog.NewTextHandler(&log, nil)))
	testutil.Must(t, err)
	before := c.current()
	testutil.WriteFile(t, cert, "garbage")
	for range 3 {
		c.due()
		if c.current() != before {
			t.Error("the previous certificate is not in use any more")
		}
	}
	if n := strings.Count(log.String(), "cannot read the certificate"); n != 1 || !strings.Contains(log.String(), cert) {
		t.Errorf("it is logged %d times:\n%s", n, &log)
	}
}
