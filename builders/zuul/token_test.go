package zuul_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders/buildertest"
	"github.com/npctl/npctl/internal/testutil"
)

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	testutil.WriteProgram(t, path, text)
	return path
}

func TestTokenIsReadAtEachUse(t *testing.T) {
	dir := t.TempDir()
	for name, from := range map[string][]any{
		"file":    {"token_file", "token"},
		"command": {"token_command", buildertest.Words("./print-token", "now")},
		"value":   {"token", cty.StringVal("first").Mark("sensitive")},
	} {
		t.Run(name, func(t *testing.T) {
			d, b := newDouble(t, periodic(1, 1, raw)), quick()
			for _, token := range []string{"first", "second"} {
				write(t, dir, "token", "Bearer "+token+"\n")
				write(t, dir, "print-token", "#!/bin/sh\ntest \"$1\" = now && echo warning >&2 && echo "+token)
				d.mu.Lock()
				d.token = token
				d.mu.Unlock()
				_, err := b.Versions(t.Context(), "", d.block(from...), dir)
				if token == "second" && name == "value" {
					if err == nil || !strings.Contains(err.Error(), "does not accept the token") || strings.Contains(err.Error(), "first") {
						t.Errorf("error is %v", err)
					}
				} else if err != nil {
					t.Error(err)
				}
			}
			asked, tokens := d.calls()
			if want := []string{"", "Bearer first", "Bearer second"}; name != "value" && !slices.Equal(tokens, want) {
				t.Errorf("tokens were %q for %q, want %q", tokens, asked, want)
			}
		})
	}
}

func TestExpiredTokenIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	d := newDouble(t, periodic(1, 1, raw))
	// Each run prints another token.
	write(t, dir, "next", "#!/bin/sh\necho x >> count\necho token-$(wc -l < count | tr -d ' ')\n")
	config := d.block("token_command", buildertest.Words("./next"))
	d.token = "token-2"
	if _, err := quick().Versions(t.Context(), "", config, dir); err != nil {
		t.Error(err)
	}
	if _, tokens := d.calls(); !slices.Equal(tokens, []string{"", "Bearer token-1", "Bearer token-2"}) {
		t.Errorf("tokens were %q", tokens)
	}
	_, err := quick().Versions(t.Context(), "", config, dir)
	if err == nil || !strings.Contains(err.Error(), `does not accept the token; its message is "invalid_token token expired Bearer (sensitive)"`) {
		t.Errorf("error is %v", err)
	}
	if _, tokens := d.calls(); len(tokens) != 6 {
		t.Errorf("tokens were %q, want two tries", tokens)
	}
}

func TestTokenThatIsMissingIsAskedFor(t *testing.T) {
	d := newDouble(t, periodic(1, 1, raw))
	d.token = "x"
	_, err := quick().Versions(t.Context(), "", d.block(), "")
	if err == nil || !strings.Contains(err.Error(), "it requires a token: set token, token_file or token_command") {
		t.Errorf("error is %v", err)
	}
}

func TestTokensThatAreNoneAreErrors(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "empty", "\n")
	write(t, dir, "two", "secret words\n")
	write(t, dir, "large", strings.Repeat("x", 100_000))
	write(t, dir, "fail", "#!/bin/sh\necho sec-ret\necho log in first, not with sec-ret >&2\nexit 3\n")
	write(t, dir, "endless", "#!/bin/sh\nyes secret | head -c 1000000\n")
	write(t, dir, "quiet", "#!/bin/sh\n")
	for _, test := range []struct {
		name, value any
		want        string
	}{
		{"token_file", "none", "none: no such file or directory"},
		{"token_file", ".", "is not a regular file"},
		{"token_file", "empty", "/empty contains no token: it must be one word"},
		{"token_file", "two", "/two contains no token: it must be one word"},
		{"token_file", "large", "/large has more than 64.0 KiB"},
		{"token_command", buildertest.Words("./fail"), `token_command: "./fail": exit status 3: log in first, not with (sensitive)`},
		{"token_command", buildertest.Words("./endless"), "its output has more than 65536 bytes"},
		{"token_command", buildertest.Words("./quiet"), "token_command contains no token: it must be one word"},
		{"token_command", buildertest.Words("no-such-program"), "executable file not found"},
		{"token", "sec-ret\x01xyz", "token contains no token: it must be one word"},
	} {
		d := newDouble(t, periodic(1, 1, raw))
		_, err := quick().Versions(t.Context(), "", d.block(test.name, test.value), dir)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "sec-ret") {
			t.Errorf("%v: error is %v, want %q", test.value, err, test.want)
		}
	}
}

// The server at an artifact's address must never receive the token; nor may a log or an error contain it.
func TestTokenStaysWithZuul(t *testing.T) {
	s := newSite(t)
	s.token = "hunter2-token"
	elsewhere := newFiles(t, s.files.content)
	s.files.faults["/5f3/debian.qcow2"] = []func(http.ResponseWriter, *http.Request) bool{func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, elsewhere.URL+"/5f3/debian.qcow2?sig=hunter2", http.StatusFound)
		return true
	}}
	var log bytes.Buffer
	if _, err := quick().Build(t.Context(), job(t, s.block("token", "hunter2-token"), "qcow2", "raw"), &log); err != nil {
		t.Fatal(err)
	}
	if got := slices.Concat(s.files.secrets, elsewhere.secrets); len(got) > 0 || len(elsewhere.requests()) != 1 {
		t.Errorf("servers of artifacts got %q; requests were %q", got, elsewhere.requests())
	}
	_, tokens := s.calls()
	if want := []string{"", "Bearer hunter2-token", "Bearer hunter2-token"}; !slices.Equal(tokens, want) {
		t.Errorf("Zuul got %q", tokens)
	}
	if strings.Contains(log.String(), "hunter2") {
		t.Errorf("log is\n%s", &log)
	}
	// Not even Zuul's own host receives it for an artifact.
	s.rows[0]["artifacts"] = []row{artifact(s.URL+"/logs/x.qcow2", "name", "hunter2-token")}
	_, err := quick().Build(t.Context(), job(t, s.block("token", "hunter2-token"), "qcow2"), &log)
	_, tokens = s.calls()
	if err == nil || tokens[len(tokens)-1] != "" || strings.Contains(err.Error()+log.String(), "hunter2") {
		t.Errorf("error is %v; Zuul got %q", err, tokens)
	}
	s.faults = []func(http.ResponseWriter) bool{func(w http.ResponseWriter) bool {
		w.Header().Set("Location", elsewhere.URL+"/5f3/debian.qcow2")
		w.WriteHeader(http.StatusTemporaryRedirect)
		return true
	}}
	if _, err := quick().Versions(t.Context(), "", s.block("token", "hunter2-token"), ""); err == nil {
		t.Error("a redirect to another host was followed")
	}
	if len(elsewhere.secrets) > 0 || len(elsewhere.requests()) != 1 {
		t.Errorf("the other host got %q, %q", elsewhere.secrets, elsewhere.requests())
	}
}

// keep writes the certificate or key of a TLS server as PEM.
func keep(t *testing.T, dir, name, kind string, der []byte) string {
	t.Helper()
	return write(t, dir, name, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
}

func TestTLSOptions(t *testing.T) {
	dir := t.TempDir()
	s := newSite(t)
	var seen []string // whether the file server received a client certificate
	secure := func(h http.Handler, clients *x509.CertPool) *httptest.Server {
		server := httptest.NewUnstartedServer(h)
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
		if clients != nil {
			server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
		}
		server.StartTLS()
		t.Cleanup(server.Close)
		return server
	}
	elsewhere := secure(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, fmt.Sprint(len(r.TLS.PeerCertificates)))
		s.files.ServeHTTP(w, r)
	}), nil)
	cert, key, pool := clientCertificate(t, dir)
	front := secure(s.double, pool)
	ca := keep(t, dir, "ca.pem", "CERTIFICATE", front.Certificate().Raw)
	s.artifact()["url"] = elsewhere.URL + "/5f3/debian.qcow2"
	none := cty.NullVal(cty.String)
	files := func(ca, cert, key cty.Value) cty.Value {
		return s.block("api_url", front.URL, "tls", cty.ObjectVal(map[string]cty.Value{"ca": ca, "cert": cert, "key": key}))
	}
	text := cty.StringVal
	for _, test := range []struct {
		name   string
		config cty.Value
		want   string
	}{
		{"nothing", s.block("api_url", front.URL), "certificate signed by unknown authority"},
		{"no certificate", files(text(ca), none, none), "certificate required"},
		{"certificate without key", files(text(ca), text(cert), none), "cert and key belong together"},
		{"no such file", files(text("none.pem"), none, none), "none.pem: no such file"},
		{"no PEM", files(text(key), none, none), "contains no PEM certificate"},
		{"all", files(text("ca.pem"), text("client.pem"), text("client.key")), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			j := job(t, test.config, "qcow2")
			j.BaseDir = dir
			_, err := quick().Build(t.Context(), j, &bytes.Buffer{})
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error is %v, want %q", err, test.want)
			}
		})
	}
	if !slices.Equal(seen, []string{"0"}) {
		t.Errorf("the server of artifacts was shown %v certificates, want one request without", seen)
	}
}

func clientCertificate(t *testing.T, dir string) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testutil.Must(t, err)
	template := &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, IsCA: true, BasicConstraintsValid: true, NotAfter: farAway}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	testutil.Must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	testutil.Must(t, err)
	made, err := x509.ParseCertificate(der)
	testutil.Must(t, err)
	pool = x509.NewCertPool()
	pool.AddCert(made)
	return keep(t, dir, "client.pem", "CERTIFICATE", der), keep(t, dir, "client.key", "PRIVATE KEY", secret), pool
}

// TestTokenCommandGetsACleanEnvironment: a plan of a change that is not merged runs the command.
func TestTokenCommandGetsACleanEnvironment(t *testing.T) {
	t.Setenv("OS_PASSWORD", "hunter2")
	dir := t.TempDir()
	write(t, dir, "show", "#!/bin/sh\ntest -n \"$PATH\" && echo \"${OS_PASSWORD-clean}\"")
	d, b := newDouble(t, periodic(1, 1, raw)), quick()
	d.mu.Lock()
	d.token = "clean"
	d.mu.Unlock()
	if _, err := b.Versions(t.Context(), "", d.block("token_command", buildertest.Words("./show")), dir); err != nil {
		t.Error(err)
	}
}
