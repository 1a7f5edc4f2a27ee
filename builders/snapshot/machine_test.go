package snapshot_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/internal/process"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/test/sshserver"
)

// machine is the instance of a test: an SSH server that runs commands on this host, in a directory of their own. Its
// disk is the file that the script leaves at $TOOL_OUTPUT.raw.
type machine struct {
	dir, output string
	key         ssh.Signer // its host key
	known       []string   // result of HostKeys
	login       resources.Login
	asked       [3]string // provider, pool, label

	bootErr, captureErr, closeErr error
	deafFor                       int                                                  // connections to close first
	deaf                          bool                                                 // no server listens
	run                           func(context.Context, sshserver.Command) (int, bool) // replaces the command; false: run it
	capture                       func(context.Context) error                          // called in Capture

	mu     sync.Mutex
	events []string // guarded by mu
	live   bool     // guarded by mu
	stop   func()
}

var (
	_ builders.Instances = (*machine)(nil)
	_ builders.Instance  = (*machine)(nil)
)

func newKey(t *testing.T) (ssh.Signer, string) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	testutil.Must(t, err)
	signer, err := ssh.NewSignerFromKey(key)
	testutil.Must(t, err)
	block, err := ssh.MarshalPrivateKey(key, "")
	testutil.Must(t, err)
	return signer, string(pem.EncodeToMemory(block))
}

func publicText(s ssh.Signer) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.PublicKey())))
}

// newMachine returns a machine that has not booted. Only user debian may log in, with the key in the returned file.
func newMachine(t *testing.T) (*machine, string) {
	t.Helper()
	m := &machine{dir: t.TempDir(), login: resources.Login{Username: "debian"}}
	m.output = filepath.Join(m.dir, "disk")
	m.key, _ = newKey(t)
	allowed, text := newKey(t)
	file := filepath.Join(m.dir, "id_ed25519")
	testutil.WriteFile(t, file, text)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.Must(t, err)
	m.login.ConnectionPort = int64(listener.Addr().(*net.TCPAddr).Port)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	server := &sshserver.Server{Find: func(context.Context, net.Addr) (sshserver.Machine, bool) {
		return sshserver.Machine{Name: "fake", HostKeys: []ssh.Signer{m.key}, Run: m.command, Allowed: func(user string, key ssh.PublicKey) bool {
			return user == "debian" && bytes.Equal(key.Marshal(), allowed.PublicKey().Marshal())
		}}, m.answers()
	}}
	go func() {
		defer close(done)
		_ = server.Serve(ctx, listener)
	}()
	m.stop = func() { cancel(); <-done }
	t.Cleanup(m.stop)
	return m, file
}

func (m *machine) answers() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.deafFor--
	return m.live && !m.deaf && m.deafFor < 0
}

func (m *machine) note(event string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, event)
}

func (m *machine) noted() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.events)
}

func (m *machine) Boot(ctx context.Context, provider, pool, label string) (builders.Instance, error) {
	m.note("boot")
	m.asked = [3]string{provider, pool, label}
	if m.bootErr != nil {
		return nil, m.bootErr
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.live = true
	return m, ctx.Err()
}

func (m *machine) Address() string                { return "127.0.0.1" }
func (m *machine) Login() resources.Login         { return m.login }
func (m *machine) HostKeys() []string             { return m.known }
func (m *machine) Console(context.Context) string { return "kernel panic - not syncing\x1b[0m\n" }

func (m *machine) Capture(ctx context.Context, path string, progress func(string, int64, int64)) (string, error) {
	m.note("capture")
	if m.capture != nil {
		if err := m.capture(ctx); err != nil {
			return "", err
		}
	}
	if m.captureErr != nil {
		return "", m.captureErr
	}
	progress("downloading", 1, 2)
	disk, err := os.ReadFile(m.output + ".raw")
	if err != nil {
		return "", err
	}
	if err := os.Remove(m.output + ".raw"); err != nil {
		return "", err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	_, err = file.Write(disk)
	return "raw", errors.Join(err, file.Close())
}

// Close stops all commands on the machine.
func (m *machine) Close(ctx context.Context) error {
	m.note("close")
	if ctx.Err() != nil {
		m.note("closed with a context that is over")
	}
	if limit, ok := ctx.Deadline(); !ok || time.Until(limit) > time.Hour {
		m.note("closed without a time limit")
	}
	m.mu.Lock()
	m.live = false
	m.mu.Unlock()
	m.stop()
	return m.closeErr
}

// command runs a command on this host, unless it would shut the host down.
func (m *machine) command(ctx context.Context, c sshserver.Command) int {
	if strings.Contains(c.Line, "shutdown") {
		m.note("shutdown")
		return sshserver.HangUp
	}
	m.note("command")
	if m.run != nil {
		if status, done := m.run(ctx, c); done {
			return status
		}
	}
	line := strings.ReplaceAll(c.Line, "/dev/shm", m.dir) // the memory of a machine ends with it
	input, err := os.CreateTemp(m.dir, "stdin")
	if err != nil {
		return 250
	}
	_, _ = io.Copy(input, c.Stdin)
	_ = input.Close()
	err = process.Run(ctx, process.Spec{
		Args: []string{"/bin/sh", "-c", "exec <" + input.Name() + "; " + line}, Dir: m.dir, Grace: 100 * time.Millisecond,
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + m.dir, "TMPDIR=" + m.dir, "TOOL_OUTPUT=" + m.output},
		Log: &withoutEnd{to: c.Stdout}, LogLimit: 1 << 40,
	})
	var exit *process.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.Code
	default:
		return 251
	}
}

// withoutEnd removes the line with which process.Run ends a log.
type withoutEnd struct{ to io.Writer }

func (w *withoutEnd) Write(p []byte) (int, error) {
	if bytes.HasPrefix(p, []byte("Exit code: ")) || bytes.HasPrefix(p, []byte("\nExit code: ")) {
		return len(p), nil
	}
	return w.to.Write(p)
}
