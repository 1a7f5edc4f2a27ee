package emulator

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"golang.org/x/crypto/ssh"

	"github.com/npctl/npctl/internal/keyscan"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/sshserver"
)

// dialled is a cloud with servers that serve SSH.
type dialled struct {
	*client
	port int
}

func dial(t *testing.T, o Options) *dialled {
	t.Helper()
	c := connect(t, o)
	return &dialled{c, answerSSH(t, c.cloud)}
}

func answerSSH(t *testing.T, cloud *Cloud) (port int) {
	t.Helper()
	listener, err := sshserver.Listen(t.Context(), 0)
	testutil.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- ServeSSH(ctx, listener, cloud) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().(*net.TCPAddr).Port
}

// boot creates a server and returns its ID and SSH address.
func (d *dialled) boot(t *testing.T, name string) (id, address string) {
	t.Helper()
	made, err := d.asked(t, d.uploaded(t, name, []byte("image")).ID, name)
	testutil.Must(t, err)
	id = made.ID
	s, err := servers.Get(t.Context(), d.compute, id).Extract()
	testutil.Must(t, err)
	for _, list := range s.Addresses {
		one := list.([]any)[0].(map[string]any)["addr"].(string)
		return id, net.JoinHostPort(one, fmt.Sprint(d.port))
	}
	t.Fatalf("server %s has no address", name)
	return "", ""
}

func scan(t *testing.T, address string) string {
	t.Helper()
	keys, err := keyscan.Scan(t.Context(), address, 5*time.Second)
	if err != nil || len(keys) != 1 {
		t.Fatalf("scan of %s: %q, %v; want one key", address, keys, err)
	}
	return keys[0]
}

func TestServersShowHostKeysOfTheirOwn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "emulator.json")
	d := dial(t, Options{File: file})
	_, first := d.boot(t, "first")
	id, second := d.boot(t, "second")
	one, two := scan(t, first), scan(t, second)
	if one == two {
		t.Errorf("both servers show %s", one)
	}
	again := open(t, Options{File: file})
	host, _, _ := net.SplitHostPort(first)
	if got := scan(t, net.JoinHostPort(host, fmt.Sprint(answerSSH(t, again)))); got != one {
		t.Errorf("another process on the same file shows %s, want %s", got, one)
	}
	testutil.Must(t, servers.Delete(t.Context(), d.compute, id).ExtractErr())
	if keys, err := keyscan.Scan(t.Context(), second, time.Second); err == nil {
		t.Errorf("a deleted server shows %q", keys)
	}
	if keys, err := keyscan.Scan(t.Context(), fmt.Sprintf("127.0.0.1:%d", d.port), time.Second); err == nil {
		t.Errorf("an address without a server shows %q", keys)
	}
}

// run runs a command over SSH.
func run(t *testing.T, address, command, input string) (string, error) {
	t.Helper()
	client, err := ssh.Dial("tcp", address, &ssh.ClientConfig{User: "root", HostKeyCallback: ssh.InsecureIgnoreHostKey(), Timeout: 5 * time.Second}) //nolint:gosec // test only
	if err != nil {
		return "", err
	}
	defer client.Close()
	session, err := client.NewSession()
	if err != nil {
		return "", err
	}
	session.Stdin = strings.NewReader(input)
	out, err := session.CombinedOutput(command)
	return string(out), err
}

func (d *dialled) console(t *testing.T, id string) string {
	t.Helper()
	text, err := servers.ShowConsoleOutput(t.Context(), d.compute, id, servers.ShowConsoleOutputOpts{}).Extract()
	testutil.Must(t, err)
	return text
}

func TestCommandsAreNotExecutedAndAppearInTheConsole(t *testing.T) {
	d := dial(t, Options{})
	id, address := d.boot(t, "x")
	out, err := run(t, address, "sh -e", "rm -rf /\n")
	if err != nil || out != "emulator: commands are not executed; read 9 bytes of input\n" {
		t.Errorf("command answered %q, %v", out, err)
	}
	if got, want := d.console(t, id), "emulator: root asked for: sh -e\nrm -rf /\nx login: "; !strings.HasSuffix(got, want) {
		t.Errorf("console ends\n%s\nwant\n%s", got, want)
	}
	if _, err := run(t, address, "sync; shutdown -h now", ""); err == nil {
		t.Error("a machine that goes down answered")
	}
	s, err := servers.Get(t.Context(), d.compute, id).Extract()
	if err != nil || s.Status != "SHUTOFF" {
		t.Errorf("after shutdown the server is %v, %v", s, err)
	}
	if _, err := run(t, address, "true", ""); err == nil {
		t.Error("a machine that is off answered")
	}
}

func TestStoredCommandsAreLimited(t *testing.T) {
	d := dial(t, Options{})
	id, address := d.boot(t, "x")
	for range 3 {
		if _, err := run(t, address, "sh", strings.Repeat("x", commandBytes+4096)); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(d.console(t, id)); got > heardBytes+1024 {
		t.Errorf("the console has %d bytes", got)
	}
}

func TestFaultsOfSSH(t *testing.T) {
	d := dial(t, Options{})
	_, address := d.boot(t, "x")
	d.faults(t, Fault{Operation: "server.ssh", Action: LostBefore, Times: 1}, Fault{Operation: "server.command", Action: ServerError, Message: "disk full", Name: "x", Times: 1})
	if _, err := run(t, address, "true", ""); err == nil {
		t.Error("a connection that was to be cut worked")
	}
	out, err := run(t, address, "true", "")
	if code, failed := err.(*ssh.ExitError); !failed || code.ExitStatus() != 1 || !strings.Contains(out, "emulator: disk full") { //nolint:errorlint // needs this exact type
		t.Errorf("command that was to fail: %q, %v", out, err)
	}
	if out, err := run(t, address, "true", ""); err != nil {
		t.Errorf("after the faults: %q, %v", out, err)
	}
	d.faults(t, Fault{Operation: "server.ssh", Action: HangBefore})
	if _, err := keyscan.Scan(t.Context(), address, 50*time.Millisecond); err == nil {
		t.Error("a server that was to hang answered")
	}
}
