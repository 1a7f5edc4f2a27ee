package gearmantest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
)

// StartGearmand starts Debian's gearmand and returns its address.
func StartGearmand(t testing.TB, args ...string) string {
	t.Helper()
	return run(t, gearmand(t, args...)).Addr
}

// StartMortalGearmand starts Debian's gearmand, which can be killed and started again.
func StartMortalGearmand(t testing.TB) *Process {
	t.Helper()
	return run(t, gearmand(t))
}

func gearmand(t testing.TB, args ...string) func(port string) *exec.Cmd {
	return func(port string) *exec.Cmd {
		args := append([]string{"--listen", "127.0.0.1", "--port", port, "--log-file", "stderr", "--verbose", "WARNING"}, args...)
		return exec.CommandContext(t.Context(), program(t, "gearmand", "/usr/sbin/gearmand"), args...)
	}
}

// python is a server of the Python library gear.
const python = `
import gear, sys, threading
server = gear.Server(int(sys.argv[1]), host='127.0.0.1')
threading.Event().wait()
`

// StartPython starts a server of the real Python library.
func StartPython(t testing.TB) string {
	t.Helper()
	return run(t, func(port string) *exec.Cmd {
		return exec.CommandContext(t.Context(), GearPython(t), "-c", python, port)
	}).Addr
}

// GearPython is a Python interpreter that has the library gear.
func GearPython(t testing.TB) string {
	t.Helper()
	name := os.Getenv("NPCTL_GEAR_PYTHON")
	if name == "" {
		t.Fatal("NPCTL_GEAR_PYTHON is not set to a Python that has the gear library; run test/gearman/run.sh")
	}
	return name
}

// StartStunnel starts stunnel, which requires a client certificate, in front of a server and returns its address.
func StartStunnel(t testing.TB, certs Certificates, server string) string {
	t.Helper()
	return run(t, func(port string) *exec.Cmd {
		path := filepath.Join(t.TempDir(), "stunnel.conf")
		config := fmt.Sprintf("foreground = yes\npid =\ndebug = err\n[gearman]\naccept = 127.0.0.1:%s\nconnect = %s\n"+
			"cert = %s\nkey = %s\nCAfile = %s\nverifyChain = yes\n", port, server, certs.Cert, certs.Key, certs.CA)
		testutil.WriteFile(t, path, config)
		return exec.CommandContext(t.Context(), program(t, "stunnel4", "/usr/bin/stunnel4"), path)
	}).Addr
}

func program(t testing.TB, name, path string) string {
	t.Helper()
	if found, err := exec.LookPath(name); err == nil {
		return found
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s is not installed: run test/gearman/install.sh", name)
	}
	return path
}

// Process is a server that runs until the end of the test, or until it is killed. One goroutine uses it.
type Process struct {
	Addr    string
	t       testing.TB
	command func(port string) *exec.Cmd
	stop    func()
	kill    func()
}

// Stop suspends the server with SIGSTOP. Its clients can still connect and send, and get no answer.
func (p *Process) Stop() { p.stop() }

// Kill kills the server with SIGKILL, unless it is dead.
func (p *Process) Kill() { p.kill() }

// Start starts the server again where it was before.
func (p *Process) Start() {
	p.t.Helper()
	for deadline := time.Now().Add(testutil.Patience); time.Now().Before(deadline); {
		if p.begin() { // otherwise a closing connection may still use the port
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	p.t.Fatalf("a server did not start again at %s", p.Addr)
}

// begin starts the server and reports whether it listens.
func (p *Process) begin() bool {
	p.t.Helper()
	_, port, err := net.SplitHostPort(p.Addr)
	testutil.Must(p.t, err)
	cmd := p.command(port)
	cmd.Stderr, cmd.Stdout = p.t.Output(), p.t.Output()
	testutil.Must(p.t, cmd.Start())
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	p.stop = func() { testutil.Must(p.t, cmd.Process.Signal(syscall.SIGSTOP)) }
	p.kill = sync.OnceFunc(func() { _ = cmd.Process.Kill(); <-ended })
	p.t.Cleanup(p.kill)
	if listens(p.t, p.Addr, ended) {
		return true
	}
	p.kill()
	return false
}

// run starts a server on a free port and waits until it listens. If another process takes the port first, it tries
// another one.
func run(t testing.TB, command func(port string) *exec.Cmd) *Process {
	t.Helper()
	for range 5 {
		p := &Process{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(testutil.FreePort(t))), t: t, command: command}
		if p.begin() {
			return p
		}
	}
	t.Fatal("a server did not start five times")
	return nil
}

func listens(t testing.TB, addr string, ended <-chan struct{}) bool {
	for deadline := time.Now().Add(testutil.Patience); time.Now().Before(deadline); {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		if err == nil {
			_ = conn.Close()
			return true
		}
		select {
		case <-ended:
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return false
}
