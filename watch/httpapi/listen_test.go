package httpapi_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/watch/httpapi"
	"github.com/npctl/npctl/watch/httpapi/client"
)

func TestSocketExcludesOtherUsers(t *testing.T) {
	for _, c := range []struct {
		mode  fs.FileMode
		umask int
	}{{0o600, 0o022}, {0o660, 0o077}, {0o600, 0}} {
		path := filepath.Join(testutil.ShortDir(t), "deep", "sock")
		before := syscall.Umask(c.umask)
		l, err := httpapi.ListenUnix(path, c.mode)
		syscall.Umask(before)
		testutil.Must(t, err)
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != c.mode {
			t.Errorf("mode is %v, want %v (umask %o): %v", info.Mode(), c.mode, c.umask, err)
		}
		if dir, err := os.Stat(filepath.Dir(path)); err != nil || dir.Mode().Perm()&0o077&^fs.FileMode(c.umask) != 0 {
			t.Errorf("directory has mode %v: %v", dir.Mode(), err)
		}
		_ = l.Close()
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the socket is still there after Close: %v", err)
		}
	}
	if _, err := httpapi.ListenUnix(filepath.Join(testutil.ShortDir(t), "sock"), 0o666); err == nil {
		t.Error("a socket for everybody was made")
	}
}

// TestSocketIsCreatedWithItsMode checks the mode continuously while the socket is created.
func TestSocketIsCreatedWithItsMode(t *testing.T) {
	path := filepath.Join(testutil.ShortDir(t), "sock")
	done, widest := make(chan struct{}), make(chan fs.FileMode)
	go func() {
		var seen fs.FileMode
		for {
			select {
			case <-done:
				widest <- seen
				return
			default:
				if info, err := os.Lstat(path); err == nil {
					seen |= info.Mode().Perm()
				}
			}
		}
	}()
	before := syscall.Umask(0)
	for range 200 {
		l, err := httpapi.ListenUnix(path, 0o600)
		testutil.Must(t, err)
		_ = l.Close()
	}
	syscall.Umask(before)
	close(done)
	if got := <-widest; got&^0o600 != 0 {
		t.Errorf("at some moment the socket had mode %v", got)
	}
}

func TestOnlyStaleSocketIsReplaced(t *testing.T) {
	path := filepath.Join(testutil.ShortDir(t), "sock")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	testutil.Must(t, err)
	stale.SetUnlinkOnClose(false)
	if _, err := httpapi.ListenUnix(path, 0o600); !errors.Is(err, httpapi.ErrInUse) {
		t.Errorf("somebody listens, and the error is %v", err)
	}
	_ = stale.Close()
	l, err := httpapi.ListenUnix(path, 0o600)
	if err != nil {
		t.Fatalf("a stale socket is in the way: %v", err)
	}
	_ = l.Close()
	for what, put := range map[string]func() error{
		"a file":      func() error { return os.WriteFile(path, []byte("precious"), 0o600) },
		"a directory": func() error { return os.Mkdir(path, 0o700) },
		"a link":      func() error { return os.Symlink("/etc/passwd", path) },
	} {
		testutil.Must(t, put())
		if _, err := httpapi.ListenUnix(path, 0o600); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s in the way: %v", what, err)
		}
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("%s was removed", what)
		}
		_ = os.Remove(path)
	}
	if _, err := httpapi.ListenUnix("/tmp/"+strings.Repeat("x", 120), 0o600); err == nil || !strings.Contains(err.Error(), "can have 103") {
		t.Errorf("a path that is too long: %v", err)
	}
}

func TestSocketPathsFit(t *testing.T) {
	none := func(string) (string, bool) { return "", false }
	run := func(string) (string, bool) { return "/run/user/7", true }
	if got := client.SocketPath("/srv/npctl.db", none); got != "/srv/npctl.db.sock" {
		t.Errorf("socket is %s", got)
	}
	long := "/srv/" + strings.Repeat("long/", 30) + "npctl.db"
	got := client.SocketPath(long, run)
	if !strings.HasPrefix(got, "/run/user/7/npctl/") || len(got) > 103 {
		t.Errorf("socket is %s", got)
	}
	if other := client.SocketPath(long+"2", run); other == got {
		t.Errorf("two states have the socket %s", got)
	}
	if got := client.SocketPath(long, none); !strings.HasPrefix(got, os.TempDir()) || len(got) > 103 {
		t.Errorf("socket is %s", got)
	}
}

func TestSocketOfAnotherUserIsNotUsed(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("not root: only the owner's own socket is looked at")
	}
	path := filepath.Join(testutil.ShortDir(t), "sock")
	l, err := httpapi.ListenUnix(path, 0o600)
	testutil.Must(t, err)
	defer l.Close()
	if err := client.CheckSocket(path, ""); err != nil {
		t.Errorf("our own socket: %v", err)
	}
	if os.Getuid() != 0 {
		return
	}
	testutil.Must(t, os.Chown(path, 12345, 0))
	if err := client.CheckSocket(path, "/nowhere"); err == nil {
		t.Error("a socket of user 12345 is used")
	}
	state := filepath.Join(filepath.Dir(path), "npctl.db")
	testutil.Must(t, os.WriteFile(state, nil, 0o600))
	testutil.Must(t, os.Chown(state, 12345, 0))
	if err := client.CheckSocket(path, state); err != nil {
		t.Errorf("the socket belongs to whom the state belongs to: %v", err)
	}
}

func TestNamedSocketOfAnotherUserNeedsTheirDirectory(t *testing.T) {
	path := filepath.Join(testutil.ShortDir(t), "sock")
	l, err := httpapi.ListenUnix(path, 0o600)
	testutil.Must(t, err)
	defer l.Close()
	if err := client.CheckNamedSocket(path); err != nil {
		t.Errorf("our own socket: %v", err)
	}
	if os.Getuid() != 0 {
		t.Log("not root: sockets of others cannot be made")
		return
	}
	dir := filepath.Dir(path)
	for _, c := range []struct {
		socket, dir int
		mode        fs.FileMode
		taken       bool
	}{{12345, 12345, 0o755, true}, {12345, 0, 0o755, true}, {12345, 12345, 0o777 | fs.ModeSticky, false}, {12345, 12345, 0o770, false},
		{12345, 54321, 0o755, false}, {0, 0, 0o777 | fs.ModeSticky, true}} {
		testutil.Must(t, errors.Join(os.Chown(path, c.socket, 0), os.Chown(dir, c.dir, 0), os.Chmod(dir, c.mode)))
		if err := client.CheckNamedSocket(path); (err == nil) != c.taken {
			t.Errorf("socket of %d in a directory of %d with mode %v: %v", c.socket, c.dir, c.mode, err)
		}
	}
}

func TestTCPNeedsTLSExceptOnLoopback(t *testing.T) {
	for _, address := range []string{":0", "0.0.0.0:0", "[::]:0", "localhost:0", "192.0.2.1:0"} {
		l, err := httpapi.ListenTCP(t.Context(), address, httpapi.TLS{}, nil)
		if err == nil {
			_ = l.Close()
			t.Errorf("%s is listened at without TLS", address)
		}
	}
	l, err := httpapi.ListenTCP(t.Context(), "127.0.0.1:0", httpapi.TLS{}, nil)
	testutil.Must(t, err)
	_ = l.Close()
	if _, err := httpapi.ListenTCP(t.Context(), "127.0.0.1:0", httpapi.TLS{Cert: "x"}, nil); err == nil {
		t.Error("TLS without a key")
	}
}
