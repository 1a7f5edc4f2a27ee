//go:build gearman

package gearman_test

import (
	"testing"
	"time"

	"github.com/npctl/npctl/internal/gearman"
	"github.com/npctl/npctl/internal/gearman/gearmantest"
)

// These tests need gearmand, stunnel4, and a Python with the gear library ($NPCTL_GEAR_PYTHON);
// test/gearman/install.sh installs them. A missing program is a failure.

func TestRealGearmand(t *testing.T) {
	runSuite(t, gearmantest.Gearmand, func(t *testing.T) gearman.Options { return quick(t, gearmantest.StartGearmand(t)) })
}

func TestRealPythonServer(t *testing.T) {
	runSuite(t, gearmantest.Python, func(t *testing.T) gearman.Options { return quick(t, gearmantest.StartPython(t)) })
}

func TestRealGearmandBehindStunnel(t *testing.T) {
	certs := gearmantest.NewCertificates(t)
	runSuite(t, gearmantest.Gearmand, func(t *testing.T) gearman.Options {
		o := quick(t, gearmantest.StartStunnel(t, certs, gearmantest.StartGearmand(t)))
		o.TLS = loadTLS(t, certs)
		return o
	})
}

// Debian's gearmand accepts --ssl and certificates, logs that it uses them, and uses plain text.
func TestRealGearmandWithSSLIsRefused(t *testing.T) {
	certs := gearmantest.NewCertificates(t)
	addr := gearmantest.StartGearmand(t, "--ssl", "--ssl-ca-file", certs.CA, "--ssl-certificate", certs.Cert, "--ssl-key", certs.Key)
	o := quick(t, addr)
	o.TLS, o.DialTimeout = loadTLS(t, certs), time.Second
	refusesPlainText(t, o)
}

func TestRealStunnelWantsACertificate(t *testing.T) {
	certs := gearmantest.NewCertificates(t)
	o := quick(t, gearmantest.StartStunnel(t, certs, gearmantest.StartGearmand(t)))
	o.TLS = loadTLS(t, gearmantest.Certificates{CA: certs.CA})
	if _, err := gearman.New(o).Status(withTimeout(t)); err == nil {
		t.Error("a client without a certificate is let in")
	}
}
