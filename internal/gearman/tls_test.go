package gearman_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/gearman"
	"github.com/npctl/npctl/internal/gearman/gearmantest"
	"github.com/npctl/npctl/internal/testutil"
)

func loadTLS(t testing.TB, certs gearmantest.Certificates) *tls.Config {
	t.Helper()
	config, err := gearman.LoadTLS(certs.CA, certs.Cert, certs.Key)
	testutil.Must(t, err)
	return config
}

func TestClientAndWorkerOverTLS(t *testing.T) {
	certs := gearmantest.NewCertificates(t)
	runSuite(t, gearmantest.Gearmand, func(t *testing.T) gearman.Options {
		o := quick(t, gearmantest.StartTLS(t, gearmantest.Gearmand, certs.Server(t)).Addr())
		o.TLS = loadTLS(t, certs)
		return o
	})
}

// listen serves each connection by a function.
func listen(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.Must(t, err)
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop); _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { serve(conn); <-stop; _ = conn.Close() }()
		}
	}()
	return listener.Addr().String()
}

// refusesPlainText checks that nothing is done at a server that does not speak TLS, and that the error says what to do.
func refusesPlainText(t *testing.T, o gearman.Options) {
	t.Helper()
	_, err := gearman.New(o).Do(withTimeout(t), gearman.Job{Function: "secret", Data: []byte("secret")})
	if err == nil {
		t.Fatal("a server without TLS is spoken to")
	}
	for _, part := range []string{o.Servers[0], "plain text", "does not fall back", "stunnel"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error is %q, want %q in it", err, part)
		}
	}
}

func TestPlainTextIsRefused(t *testing.T) {
	certs := gearmantest.NewCertificates(t)
	heard := make(chan string, 16)
	for name, serve := range map[string]func(net.Conn){
		"answers": func(c net.Conn) {
			buffer := make([]byte, 1<<16)
			n, _ := c.Read(buffer)
			heard <- string(buffer[:n])
			_, _ = c.Write([]byte("ERR UNKNOWN_COMMAND Unknown+server+command\r\n"))
		},
		"waits": func(c net.Conn) { _, _ = bufio.NewReader(c).Peek(1) },
		"closes": func(c net.Conn) {
			_, _ = c.Read(make([]byte, 1<<16))
			_ = c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := quick(t, listen(t, serve))
			o.TLS, o.DialTimeout = loadTLS(t, certs), 500*time.Millisecond
			refusesPlainText(t, o)
		})
	}
	if text := receive(t, heard, "the handshake"); text[0] != 0x16 || strings.Contains(text, "secret") {
		t.Errorf("the server heard %q, want a TLS handshake", text)
	}
}

func TestUnknownCertificatesAreRejected(t *testing.T) {
	certs, others := gearmantest.NewCertificates(t), gearmantest.NewCertificates(t)
	server := gearmantest.StartTLS(t, gearmantest.Gearmand, certs.Server(t))
	for name, config := range map[string]*tls.Config{
		"the server is not trusted":   loadTLS(t, others),
		"the client has no papers":    loadTLS(t, gearmantest.Certificates{CA: certs.CA}),
		"the client's are of another": loadTLS(t, gearmantest.Certificates{CA: certs.CA, Cert: others.Cert, Key: others.Key}),
	} {
		o := quick(t, server.Addr())
		o.TLS = config
		_, err := gearman.New(o).Status(withTimeout(t))
		if err == nil || !strings.Contains(err.Error(), server.Addr()) || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%s: got %v, want an error about certificates that names the server", name, err)
		}
	}
}

func TestTLSServerGetsNoPlainText(t *testing.T) {
	certs := gearmantest.NewCertificates(t)
	o := quick(t, gearmantest.StartTLS(t, gearmantest.Gearmand, certs.Server(t)).Addr())
	_, err := gearman.New(o).Status(withTimeout(t))
	if err == nil || !strings.Contains(err.Error(), "if it requires TLS, add a tls block") {
		t.Errorf("got %v, want a hint about the tls block", err)
	}
}

func TestTLSFilesAreChecked(t *testing.T) {
	certs := gearmantest.NewCertificates(t)
	empty := t.TempDir() + "/empty"
	testutil.Must(t, os.WriteFile(empty, nil, 0o600))
	for _, test := range []struct{ ca, cert, key, want string }{
		{"/nowhere/ca.pem", "", "", "read certificates of authorities: open /nowhere/ca.pem: no such file or directory"},
		{empty, "", "", empty + " holds no certificate in PEM format"},
		{certs.CA, certs.Cert, "", "a certificate needs its key, and a key its certificate: give both or none"},
		{certs.CA, certs.Cert, certs.CA, fmt.Sprintf("load certificate %s with key %s: tls: ", certs.Cert, certs.CA)},
	} {
		_, err := gearman.LoadTLS(test.ca, test.cert, test.key)
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("got error  %v\nwant error %s", err, test.want)
		}
	}
}
