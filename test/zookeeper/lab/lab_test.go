//go:build integration

package lab

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/program"
)

// shared is the lab of tests that do not disturb its servers. Each test uses its own requests and paths.
var shared *Lab

func TestMain(m *testing.M) {
	program.SetParallel(6)
	dir, err := os.MkdirTemp("", "npctl-lab")
	if err == nil {
		shared, err = Open(dir, 1)
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	_ = shared.Close()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// word sends a four-letter word over TLS, with or without a certificate.
func word(t *testing.T, e Env, word, cert, key string) (string, error) {
	t.Helper()
	pem, err := os.ReadFile(e.CA)
	testutil.Must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		testutil.Must(t, err)
		config.Certificates = []tls.Certificate{pair}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", e.Hosts)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := io.WriteString(c, word); err != nil {
		return "", err
	}
	text, err := io.ReadAll(c)
	return string(text), err
}

func TestServerAcceptsOnlyClientsOfItsAuthority(t *testing.T) {
	t.Parallel()
	l := shared
	answer, err := word(t, l.Env, "srvr", l.Cert, l.Key)
	if err != nil || !strings.Contains(answer, "Mode: standalone") {
		t.Errorf("with a certificate: %q, %v", answer, err)
	}
	if answer, err := word(t, l.Env, "srvr", "", ""); err == nil && answer != "" {
		t.Errorf("without a certificate: %q", answer)
	}
	if answer, err := word(t, l.Env, "srvr", l.StrangerCert, l.StrangerKey); err == nil && answer != "" {
		t.Errorf("with a stranger's certificate: %q", answer)
	}
	if answer, err := l.Word("mntr"); err != nil || !strings.Contains(answer, "zk_packets_received") {
		t.Errorf("mntr: %q, %v", answer, err)
	}
}

// patient is a session timeout, as long as Zuul's, of tests about records and not about sessions. On a busy machine, an election
// or the start of a server, with the client's pauses between its attempts, can exceed the peer's usual 10 s.
const patient = 2 * time.Minute

func TestRecordsSurviveKilledServer(t *testing.T) {
	t.Parallel()
	l := Start(t, 1)
	zuul := StartPeer(t, l.Env, PeerOptions{Timeout: patient})
	ctx := t.Context()
	testutil.Must(t, zuul.Create(ctx, "/kept", "precious"))
	testutil.Must(t, l.Kill())
	if _, err := l.Word("srvr"); err == nil {
		t.Error("a killed server answers")
	}
	testutil.Must(t, l.Up())
	if r, err := zuul.Read(ctx, "/kept"); err != nil || r.Data != "precious" {
		t.Errorf("got %+v, %v", r, err)
	}
	testutil.Must(t, l.Restart())
	if r, err := zuul.Read(ctx, "/kept"); err != nil || r.Data != "precious" {
		t.Errorf("after a restart: got %+v, %v", r, err)
	}
}

func TestEnsembleSurvivesLossOfOneServer(t *testing.T) {
	t.Parallel()
	l := Start(t, 3)
	zuul := StartPeer(t, l.Env, PeerOptions{Timeout: patient})
	ctx := t.Context()
	testutil.Must(t, l.Kill(2))
	testutil.Must(t, zuul.Create(ctx, "/kept", "precious"))
	testutil.Must(t, l.Up())
	testutil.Must(t, l.Kill(1))
	if r, err := zuul.Read(ctx, "/kept"); err != nil || r.Data != "precious" {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestPausedServerIsSilentUntilResumed(t *testing.T) {
	t.Parallel()
	l := Start(t, 1)
	zuul := StartPeer(t, l.Env, PeerOptions{})
	testutil.Must(t, l.Pause())
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := zuul.Children(ctx, "/"); err == nil {
		t.Error("a paused server answers")
	}
	testutil.Must(t, l.Continue())
	if _, err := zuul.Children(t.Context(), "/"); err != nil {
		t.Error(err)
	}
}
