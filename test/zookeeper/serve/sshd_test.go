//go:build integration

package serve

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
)

// sshd starts a real sshd on loopback, and returns its port and host key.
func (s *site) sshd() (port int, key string) {
	s.t.Helper()
	port = testutil.FreePort(s.t)
	out, err := exec.CommandContext(s.t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(s.dir, "host")).CombinedOutput()
	s.must(err, "ssh-keygen: "+string(out))
	config := fmt.Sprintf("Port %d\nListenAddress 127.0.0.1\nHostKey %s/host\nPidFile none\nUsePAM no\nStrictModes no\n", port, s.dir)
	s.must(os.WriteFile(filepath.Join(s.dir, "sshd_config"), []byte(config), 0o600), "sshd_config")
	s.must(os.MkdirAll("/run/sshd", 0o755), "/run/sshd") // sshd's own; its service makes it otherwise
	cmd := exec.CommandContext(context.WithoutCancel(s.t.Context()), "/usr/sbin/sshd", "-D", "-e", "-f", filepath.Join(s.dir, "sshd_config"))
	s.must(cmd.Start(), "sshd")
	s.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	s.await("sshd listens", func() bool {
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(s.t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	text, err := os.ReadFile(filepath.Join(s.dir, "host.pub"))
	s.must(err, "host.pub")
	return port, strings.Join(strings.Fields(string(text))[:2], " ")
}

func TestHostKeysAreScannedFromMachine(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	port, key := s.sshd()
	s.write(strings.Replace(single, "host_key_checking = false", fmt.Sprintf("connection_port = %d", port), 1))
	s.start()
	for range 2 {
		id, got := s.served("metal")
		if z := s.node(got[0]); !slices.Equal(z.list("host_keys"), []string{key}) || !z.is("connection_port", port) {
			t.Errorf("sshd shows %s: %s", key, z.text)
		}
		s.runBuild(id)
	}
}
