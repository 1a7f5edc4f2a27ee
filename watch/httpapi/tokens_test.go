package httpapi_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/watch/httpapi"
	"github.com/npctl/npctl/watch/httpapi/client"
)

// authority issues certificates.
type authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	a := &authority{t: t, dir: testutil.ShortDir(t)}
	a.key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	testutil.Must(t, err)
	a.cert, _ = x509.ParseCertificate(der)
	a.write("ca.pem", "CERTIFICATE", der)
	return a
}

func (a *authority) write(name, kind string, der []byte) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	testutil.Must(a.t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return path
}

func (a *authority) ca() string { return filepath.Join(a.dir, "ca.pem") }

// issue writes a certificate and key for servers and clients on this machine.
func (a *authority) issue(name string) (cert, key string) {
	a.t.Helper()
	private, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &private.PublicKey, a.key)
	testutil.Must(a.t, err)
	text, err := x509.MarshalECPrivateKey(private)
	testutil.Must(a.t, err)
	return a.write(name+".pem", "CERTIFICATE", der), a.write(name+".key", "EC PRIVATE KEY", text)
}

// overTLS serves the lab's daemon on a TCP port too and returns its URL.
func (l *lab) overTLS(t httpapi.TLS) string {
	l.t.Helper()
	listener, err := httpapi.ListenTCP(l.t.Context(), "127.0.0.1:0", t, nil)
	testutil.Must(l.t, err)
	l.t.Cleanup(l.serve(listener))
	return "https://" + listener.Addr().String()
}

func TestRolesLimitCalls(t *testing.T) {
	l := newLab(t, fleet, nil)
	a := newAuthority(t, "authority")
	cert, key := a.issue("server")
	url := l.overTLS(httpapi.TLS{Cert: cert, Key: key})
	as := func(token string) *client.Client {
		c, err := client.New(client.Options{URL: url, Token: token, CA: a.ca()})
		testutil.Must(t, err)
		t.Cleanup(c.Close)
		return c
	}
	for _, token := range []string{"", "wrong", readToken + "x", readToken[:10]} {
		_, err := as(token).Status(t.Context())
		refused(t, err, wire.CodeUnauthorized, "Bearer")
		if ready, err := as(token).Ready(t.Context()); err != nil {
			t.Errorf("a probe without a token: %t, %v", ready, err)
		}
	}
	if _, err := as(readToken).Status(t.Context()); err != nil {
		t.Error(err)
	}
	_, err := as(readToken).CreateRequest(t.Context(), wire.NewRequest{Labels: []string{"metal"}})
	refused(t, err, wire.CodeForbidden, "grafana")
	r, err := as(fullToken).CreateRequest(t.Context(), wire.NewRequest{Labels: []string{"metal"}, Data: []byte(`{"opaque":true}`)})
	testutil.Must(t, err)
	if got, err := as(readToken).Request(t.Context(), r.ID); err != nil || got.Data != nil {
		t.Errorf("one who may only look sees data %s: %v", got.Data, err)
	}
	if got, err := as(fullToken).Request(t.Context(), r.ID); err != nil || string(got.Data) != `{"opaque":true}` {
		t.Errorf("data is %s: %v", got.Data, err)
	}
	for _, token := range []string{readToken, fullToken} {
		_, err = client.OpenStore(t.Context(), as(token))
		refused(t, err, wire.CodeNotFound, "unknown path")
	}
}

func TestClientCertificateIsRequired(t *testing.T) {
	l := newLab(t, fleet, nil)
	a, strange := newAuthority(t, "authority"), newAuthority(t, "strange")
	cert, key := a.issue("server")
	url := l.overTLS(httpapi.TLS{Cert: cert, Key: key, ClientCA: a.ca()})
	for _, c := range []struct {
		from  *authority
		token string
		works bool
	}{{nil, fullToken, false}, {strange, fullToken, false}, {a, "", false}, {a, fullToken, true}} {
		o := client.Options{URL: url, Token: c.token, CA: a.ca()}
		if c.from != nil {
			o.Cert, o.Key = c.from.issue("client")
		}
		one, err := client.New(o)
		testutil.Must(t, err)
		if _, err = one.Status(t.Context()); (err == nil) != c.works {
			t.Errorf("certificate of %v, token %q: %v", c.from != nil, c.token, err)
		}
		one.Close()
	}
	unknown, err := client.New(client.Options{URL: url, Token: fullToken})
	testutil.Must(t, err)
	if _, err := unknown.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a server of an authority that nobody knows was trusted: %v", err)
	}
	old := &tls.Config{MaxVersion: tls.VersionTLS11, InsecureSkipVerify: true}
	if conn, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), old); err == nil {
		_ = conn.Close()
		t.Error("TLS 1.1 is spoken")
	}
}

func TestCertificateIsReloadedWhileServing(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet, nil)
	a := newAuthority(t, "authority")
	cert, key := a.issue("server")
	url := l.overTLS(httpapi.TLS{Cert: cert, Key: key})
	serial := func() string {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{InsecureSkipVerify: true})
		testutil.Must(t, err)
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	before := serial()
	a.issue("server") // replaces the certificate
	l.await("the new certificate is used", func() bool { return serial() != before })
}

func TestNetworkListenerNeedsTokens(t *testing.T) {
	l := newLab(t, fleet, nil)
	listener, err := httpapi.ListenTCP(t.Context(), "127.0.0.1:0", httpapi.TLS{}, nil)
	testutil.Must(t, err)
	err = httpapi.New(l.daemon, httpapi.Options{}).Serve(t.Context(), listener)
	if err == nil || !strings.Contains(err.Error(), "without tokens") {
		t.Errorf("served: %v", err)
	}
}

func TestTokenFilesAreValidated(t *testing.T) {
	sum := sha256.Sum256([]byte(fullToken))
	for _, c := range []struct {
		name, text string
		mode       os.FileMode
		words      string
	}{
		{"empty", "# nobody\n\n", 0o600, "contains no tokens"},
		{"role", "zuul admin " + fullToken, 0o600, ":1: the role of zuul"},
		{"words", "zuul full", 0o600, "has 2 words"},
		{"short", "zuul full secret", 0o600, "fewer than 20"},
		{"hash", "zuul full sha256:abc", 0o600, "64 hex digits"},
		{"twice", "a full " + fullToken + "\na read-only " + readToken, 0o600, ":2: duplicate name a"},
		{"readable", "zuul full " + fullToken, 0o644, "chmod 600"},
		{"hashes", "zuul full sha256:" + hex.EncodeToString(sum[:]), 0o644, ""},
	} {
		path := filepath.Join(testutil.ShortDir(t), "tokens")
		testutil.Must(t, os.WriteFile(path, []byte(c.text), c.mode))
		_, err := httpapi.ReadTokens(path, nil)
		switch {
		case c.words == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.words != "" && (err == nil || !strings.Contains(err.Error(), c.words)):
			t.Errorf("%s: %v, want %q", c.name, err, c.words)
		case err != nil && strings.Contains(err.Error(), "secret"), err != nil && strings.Contains(err.Error(), fullToken):
			t.Errorf("%s: the error tells the token: %v", c.name, err)
		}
	}
}

func TestTokenIsRevokedByEditingTheFile(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet, nil)
	a := newAuthority(t, "authority")
	cert, key := a.issue("server")
	c, err := client.New(client.Options{URL: l.overTLS(httpapi.TLS{Cert: cert, Key: key}), Token: fullToken, CA: a.ca()})
	testutil.Must(t, err)
	defer c.Close()
	if _, err := c.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	testutil.WriteFile(t, filepath.Join(l.dir, "tokens"), "other full another-token-of-great-length")
	l.await("the token is known no more", func() bool {
		_, err := c.Status(context.Background())
		return client.IsCode(err, wire.CodeUnauthorized)
	})
}

func TestTooManyInvalidTokensAreNotChecked(t *testing.T) {
	l := newLab(t, fleet, nil)
	a := newAuthority(t, "authority")
	cert, key := a.issue("server")
	url := l.overTLS(httpapi.TLS{Cert: cert, Key: key})
	ask := func(token string) error {
		c, err := client.New(client.Options{URL: url, Token: token, CA: a.ca()})
		testutil.Must(t, err)
		defer c.Close()
		_, err = c.Status(t.Context())
		return err
	}
	unknown := 0
	for client.IsCode(ask("wrong"), wire.CodeUnauthorized) {
		if unknown++; unknown > 100 {
			t.Fatalf("after %d wrong tokens the next one is looked at", unknown)
		}
	}
	if unknown < 10 {
		t.Errorf("%d wrong tokens were looked at, and ten may be wrong", unknown)
	}
	refused(t, ask(fullToken), wire.CodeThrottled, "wait, and try again")
	if err := ask(""); !client.IsCode(err, wire.CodeUnauthorized) {
		t.Errorf("without a token: %v", err)
	}
	if _, err := l.Status(t.Context()); err != nil {
		t.Errorf("by the socket: %v", err)
	}
	got := l.guesses.all()
	if got["unknown"] != unknown || got["throttled"] != 2 {
		t.Errorf("%d wrong tokens were looked at, and counted are %v", unknown, got)
	}
}

func TestTokenIsRevokedAfterAFailedRead(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet, nil)
	a := newAuthority(t, "authority")
	cert, key := a.issue("server")
	url := l.overTLS(httpapi.TLS{Cert: cert, Key: key})
	status := func(token string) error {
		c, err := client.New(client.Options{URL: url, Token: token, CA: a.ca()})
		testutil.Must(t, err)
		defer c.Close()
		_, err = c.Status(t.Context())
		return err
	}
	tokens := filepath.Join(l.dir, "tokens")
	testutil.WriteFile(t, tokens, "other full another-token-of-great-length")
	testutil.Must(t, os.Chmod(tokens, 0o644))
	time.Sleep(2 * time.Second) // the file is due to be read after 2s, and the read fails
	if err := status(fullToken); err != nil {
		t.Fatalf("a file that cannot be used takes tokens away: %v", err)
	}
	if err := os.Chmod(tokens, 0o600); err != nil { // changes neither size nor modification time
		t.Fatal(err)
	}
	l.await("the token is known no more", func() bool { return client.IsCode(status(fullToken), wire.CodeUnauthorized) })
}

// asking sends a GET with a token over TLS and returns a reader of the response, from the status line on.
func (l *lab) asking(path, accept, token string) *bufio.Reader {
	l.t.Helper()
	a := newAuthority(l.t, "authority")
	cert, key := a.issue("server")
	conn, err := tls.Dial("tcp", strings.TrimPrefix(l.overTLS(httpapi.TLS{Cert: cert, Key: key}), "https://"), &tls.Config{InsecureSkipVerify: true})
	testutil.Must(l.t, err)
	l.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(50 * time.Second))
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: npctl\r\nAccept: %s\r\nConnection: close\r\nAuthorization: bearer %s\r\n\r\n", path, accept, token); err != nil {
		l.t.Fatal(err)
	}
	return bufio.NewReader(conn)
}

// revokeTokens replaces all tokens of the lab.
func (l *lab) revokeTokens() {
	l.t.Helper()
	testutil.WriteFile(l.t, filepath.Join(l.dir, "tokens"), "other full another-token-of-great-length")
}

func TestEventStreamEndsWhenItsTokenIsRevoked(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet, nil)
	answer := l.asking("/v1/events?subject=none", "text/event-stream", readToken)
	if line, err := answer.ReadString('\n'); err != nil || strings.TrimSpace(line) != "HTTP/1.1 200 OK" {
		t.Fatalf("the stream begins with %q, %v", line, err)
	}
	l.revokeTokens()
	if _, err := io.Copy(io.Discard, answer); err != nil {
		t.Errorf("the stream goes on with a token that was revoked: %v", err)
	}
}

func TestLongPollsEndWhenTheirTokenIsRevoked(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet, nil)
	answer := l.asking("/v1/events?subject=none&wait=60s&after=0", "application/json", readToken)
	l.revokeTokens()
	if line, err := answer.ReadString('\n'); err != nil || strings.TrimSpace(line) != "HTTP/1.1 401 Unauthorized" {
		t.Errorf("who waits with a token that was revoked gets %q, %v", line, err)
	}
}
