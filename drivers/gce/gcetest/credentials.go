package gcetest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const accessToken = "ya29.gcetest"

// The key that Servers know, and another one.
var key, otherKey = sync.OnceValue(newKey), sync.OnceValue(newKey)

func newKey() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
}

// accessTokenNow returns the only valid access token. The caller holds mu.
func (s *Server) accessTokenNow() string { return fmt.Sprint(accessToken, s.withdrawals) }

// Withdraw makes all access tokens invalid.
func (s *Server) Withdraw() { s.Change(func(s *Server) { s.withdrawals++ }) }

// token is Google's endpoint for tokens: it exchanges an assertion with a valid signature for an access token.
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if !isSigned(r.FormValue("assertion")) || r.FormValue("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error": "invalid_grant", "error_description": "Invalid JWT Signature."}`))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = w.Write([]byte(`{"access_token": "` + s.accessTokenNow() + `", "expires_in": 3599, "token_type": "Bearer"}`))
}

func isSigned(assertion string) bool {
	i := strings.LastIndexByte(assertion, '.')
	if i < 0 {
		return false
	}
	signature, err := base64.RawURLEncoding.DecodeString(assertion[i+1:])
	sum := sha256.Sum256([]byte(assertion[:i]))
	return err == nil && rsa.VerifyPKCS1v15(&key().PublicKey, crypto.SHA256, sum[:], signature) == nil
}

// Credentials writes the key file of a service account that the Server knows and returns its path, for
// GOOGLE_APPLICATION_CREDENTIALS.
func (s *Server) Credentials(t testing.TB) string { return s.keyFile(t, key()) }

// WrongCredentials is Credentials with a key that the Server does not know. It also returns the key.
func (s *Server) WrongCredentials(t testing.TB) (path, secret string) {
	return s.keyFile(t, otherKey()), encoded(otherKey())
}

func encoded(k *rsa.PrivateKey) string {
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func (s *Server) keyFile(t testing.TB, k *rsa.PrivateKey) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key.json")
	data, err := json.Marshal(map[string]string{"type": "service_account", "project_id": Project, "private_key_id": "1", "private_key": encoded(k),
		"client_email": "npctl@" + Project + ".iam.gserviceaccount.com", "token_uri": s.url + "/token"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
