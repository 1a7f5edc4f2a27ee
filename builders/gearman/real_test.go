//go:build gearman

package gearman_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	protocol "github.com/npctl/npctl/internal/gearman"
	"github.com/npctl/npctl/internal/gearman/gearmantest"
	"github.com/npctl/npctl/internal/testutil"
)

// These tests need gearmand, stunnel4, and a Python with the gear library ($NPCTL_GEAR_PYTHON); test/gearman/install.sh
// installs them. The tests fail if one is missing.

func TestRealGearmand(t *testing.T) {
	runSuite(t, gearmantest.Gearmand, func(t *testing.T) protocol.Options { return quick(t, gearmantest.StartGearmand(t)) })
}

func TestRealPythonServer(t *testing.T) {
	runSuite(t, gearmantest.Python, func(t *testing.T) protocol.Options { return quick(t, gearmantest.StartPython(t)) })
}

func TestRealGearmandBehindStunnel(t *testing.T) {
	certs := gearmantest.NewCertificates(t)
	config, err := protocol.LoadTLS(certs.CA, certs.Cert, certs.Key)
	testutil.Must(t, err)
	runSuite(t, gearmantest.Gearmand, func(t *testing.T) protocol.Options {
		o := quick(t, gearmantest.StartStunnel(t, certs, gearmantest.StartGearmand(t)))
		o.TLS = config
		return o
	})
}

// onEach runs a test with both servers.
func onEach(t *testing.T, run func(*testing.T, string)) {
	t.Run("gearmand", func(t *testing.T) { run(t, gearmantest.StartGearmand(t)) })
	t.Run("python", func(t *testing.T) { run(t, gearmantest.StartPython(t)) })
}

func python(t *testing.T, script, addr string, args ...string) *exec.Cmd {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	testutil.Must(t, err)
	return exec.CommandContext(withTimeout(t), gearmantest.GearPython(t), append([]string{"testdata/" + script, host, port}, args...)...)
}

// ended is the output of client.py.
type ended struct {
	Failure   bool
	Exception string
	Data      []string
}

func TestRealPythonClientIsServed(t *testing.T) {
	onEach(t, func(t *testing.T, addr string) {
		shop := newWorkshop(t, "centos7")
		serve(t, quick(t, addr), "h1", shop)
		submit := func(function, data string) (e ended) {
			t.Helper()
			cmd := python(t, "client.py", addr, function, data)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err == nil {
				err = json.Unmarshal(out, &e)
			}
			if err != nil {
				t.Fatalf("%s: %v\n%s", function, err, &stderr)
			}
			return e
		}
		built := submit("image-build:centos7", `{"image-id": "42"}`)
		if built.Failure || len(built.Data) != 1 || !strings.HasPrefix(built.Data[0], `{"image-id":"42",`) {
			t.Errorf("build: %+v", built)
		}
		sent := submit("image-upload:42", `{"provider": "rax", "image-name": "centos7"}`)
		if diff := cmp.Diff(ended{Data: []string{`{"external-id":"cloud-42"}`}}, sent); diff != "" {
			t.Errorf("upload (-want +got):\n%s", diff)
		}
		if failed := submit("image-upload:42", `{"provider": "rax"}`); !failed.Failure || len(failed.Data) > 0 {
			t.Errorf("upload of no image: %+v", failed)
		}
		if deleted := submit("image-delete:42", ""); deleted.Failure || strings.Join(deleted.Data, "") != "" {
			t.Errorf("delete: %+v", deleted)
		}
		offered(t, quick(t, addr), map[string]int{"image-build:centos7": 1})
	})
}

func TestRealPythonWorkerServesUs(t *testing.T) {
	onEach(t, func(t *testing.T, addr string) {
		cmd := python(t, "worker.py", addr, "centos7")
		cmd.Stderr = t.Output()
		out, err := cmd.StdoutPipe()
		testutil.Must(t, err)
		testutil.Must(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		lines := bufio.NewScanner(out)
		next := func() string { lines.Scan(); return lines.Text() }
		if got := next(); got != "ready" {
			t.Fatalf("the worker says %q", got)
		}
		b := newBuilder(quick(t, addr))
		if artifact, err := b.Build(withTimeout(t), job("centos7"), &bytes.Buffer{}); err != nil || len(artifact.RemoteFiles) > 0 {
			t.Errorf("build: %+v, %v", artifact, err)
		}
		if got := next(); !strings.HasPrefix(got, `image-build:centos7 {"image-id":"`+id+`",`) {
			t.Errorf("the worker got %q", got)
		}
		if artifact, err := b.Build(withTimeout(t), job("centos7"), &bytes.Buffer{}); err != nil || artifact.Host != "127.0.0.1" {
			t.Errorf("build again: %+v, %v", artifact, err)
		}
		if external, err := b.Upload(withTimeout(t), sending()); external != "cloud/debian" || err != nil {
			t.Errorf("send: %q, %v", external, err)
		}
		if err := b.Remove(withTimeout(t), id); err != nil {
			t.Error(err)
		}
		j := job("centos7")
		j.BuildID = "fail1"
		if _, err := b.Build(withTimeout(t), j, &bytes.Buffer{}); !errors.Is(err, protocol.ErrFailed) {
			t.Errorf("failing build: %v", err)
		}
		j.BuildID = "raise1"
		if _, err := b.Build(withTimeout(t), j, &bytes.Buffer{}); err == nil || !strings.HasSuffix(err.Error(), "Traceback: no such element") {
			t.Errorf("raising build: %v", err)
		}
	})
}
