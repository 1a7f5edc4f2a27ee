//go:build integration

package systemd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/program"
)

// npctl is the program under test.
var npctl string

func TestMain(m *testing.M) { os.Exit(program.Main(m, &npctl)) }

// checkout is the machine's directory with the files of a package: the program and the files of packaging.
const checkout = "/srv/npctl"

// machine is a set of namespaces with its own systemd.
type machine struct {
	t   *testing.T
	pid int // PID of its systemd
}

// boot starts a machine and stops it at the end of the test.
func boot(t *testing.T) *machine {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "./lab.sh", t.TempDir())
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	testutil.Must(t, cmd.Start())
	done := make(chan struct{})
	go func() { defer close(done); _ = cmd.Wait() }() // said has its output
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-done })
	m := &machine{t: t}
	testutil.Await(m.t, "systemd is up", func() bool {
		select {
		case <-done:
			t.Fatalf("lab.sh has ended:\n%s", &said)
		default:
		}
		m.pid = systemd(cmd.Process.Pid)
		return m.pid != 0
	})
	m.unpack()
	testutil.Await(m.t, "the machine runs", func() bool {
		state, _ := m.try("systemctl is-system-running")
		return state == "running" || state == "degraded" // because of a unit of another package
	})
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := m.try("journalctl --no-pager | grep -v runuser | tail -n 100")
			t.Logf("journal:\n%s", log)
		}
	})
	return m
}

// systemd returns the PID of the child that has become systemd, or 0.
func systemd(parent int) int {
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", parent, parent))
	child, err := strconv.Atoi(strings.TrimSpace(string(children)))
	if err != nil {
		return 0
	}
	if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", child)); string(name) != "systemd\n" {
		return 0
	}
	return child
}

// try runs a script in the machine as root and returns its output.
func (m *machine) try(script string) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.t.Context()), 2*testutil.Patience)
	defer cancel()
	root := fmt.Sprintf("/proc/%d/root", m.pid)
	cmd := exec.CommandContext(ctx, "nsenter", "--target="+strconv.Itoa(m.pid), "--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup",
		"--root="+root, "--wd="+root+checkout, "sh", "-c", script)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// run is try for a script that must succeed.
func (m *machine) run(script string) string {
	m.t.Helper()
	out, err := m.try(script)
	if err != nil {
		m.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return out
}

// as is try as a user, with NPCTL_SOCKET set to the socket of the daemon.
func (m *machine) as(user, script string) (string, error) {
	return m.try("cd / && NPCTL_SOCKET=/var/lib/npctl/npctl.db.sock runuser -u " + user + " -- " + script)
}

// write writes a file in the machine.
func (m *machine) write(path, text string) {
	m.t.Helper()
	path = fmt.Sprintf("/proc/%d/root%s", m.pid, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // as in /etc
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // as in /etc
		m.t.Fatal(err)
	}
}

// is returns a property of a unit, as systemctl show prints it.
func (m *machine) is(unit, property string) string {
	m.t.Helper()
	return m.run("systemctl show --value --property=" + property + " " + unit)
}

// unpack copies the program and the files of packaging to the paths that the documentation uses.
func (m *machine) unpack() {
	m.t.Helper()
	at := fmt.Sprintf("/proc/%d/root%s", m.pid, checkout)
	for _, command := range [][]string{
		{"mkdir", "-p", at + "/bin"},
		{"cp", npctl, at + "/bin/npctl"},
		{"cp", "-r", "../../packaging", at},
	} {
		if out, err := exec.CommandContext(m.t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil { //nolint:gosec // those above
			m.t.Fatalf("%q: %v\n%s", command, err, out)
		}
	}
}

var typed = regexp.MustCompile(`(?m)^\$ (sudo .*)$`)

// install runs the installation commands of docs/operations.md with a configuration.
func (m *machine) install(configuration string) {
	m.t.Helper()
	m.write("/etc/npctl/npctl.hcl", configuration)
	page := testutil.ReadFile(m.t, "../../docs/operations.md")
	told, _, found := strings.Cut(page, "### New configuration")
	commands := typed.FindAllStringSubmatch(told, -1)
	if !found || len(commands) != 6 {
		m.t.Fatalf("docs/operations.md contains %d commands: %q", len(commands), commands)
	}
	for _, command := range commands {
		m.run(strings.ReplaceAll(command[1], "sudo ", ""))
	}
	m.run("useradd --groups npctl alice && useradd bob")
}
