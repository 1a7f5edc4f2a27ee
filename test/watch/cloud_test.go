//go:build integration

package watch

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/testutil"
)

// newCloudSite serves a cloud with servers that answer SSH, and creates a site that uses it.
func newCloudSite(t *testing.T, minReady int, buildTime time.Duration) (s *site, port int) {
	t.Helper()
	p := newProject(t, "one", emulator.Options{BuildTime: buildTime, DeleteTime: 100 * time.Millisecond})
	port = p.ServeSSH(t)
	return newSite(t, cloudFleet(port, minReady), p), port
}

// cloudFleet returns a fleet with one label, for servers that answer SSH at a port.
func cloudFleet(port, minReady int) string {
	return fmt.Sprintf(`
npctl { images_dir = "images" }

diskimage "debian" {
  builder "exec" {
    command = ["sh", "-c", "printf image >\"$NPCTL_OUTPUT.raw\""]
    formats = ["raw"]
  }
  username        = "zuul"
  connection_port = %d
}

label "small" { min_ready = %d }

provider "openstack" "one" {
  cloud        = "one"
  image_format = "raw"
  pool "main" {
    networks          = ["private"]
    host_key_checking = true
    max_servers       = 5
    label "small" {
      image  = diskimage.debian
      flavor = "small"
    }
  }
}
`, port, minReady)
}

func TestNodesAreAssignedUsedAndReplaced(t *testing.T) {
	t.Parallel()
	s, _ := newCloudSite(t, 1, 300*time.Millisecond)
	d := s.start()
	testutil.Await(s.t, "one node of min_ready is ready", func() bool { return s.census() == "map[ready:1]" })
	nodes := s.createdByCommand("small", "small")
	for _, n := range nodes {
		s.checkLogin(n)
		if out, err := s.ssh(n, "true"); err != nil {
			t.Errorf("ssh to node %s: %v: %s", n.ID, err, out)
		}
	}
	testutil.Await(s.t, "another one is ready beside those", func() bool { return s.census() == "map[in-use:2 ready:1]" })
	for _, n := range nodes {
		if _, err := s.ReturnNode(t.Context(), n.ID); err != nil {
			t.Error(err)
		}
	}
	testutil.Await(s.t, "used nodes are gone", func() bool { return s.census() == "map[ready:1]" })
	if _, err := s.ssh(nodes[0], "true"); err == nil {
		t.Errorf("node %s still answers", nodes[0].ID)
	}
	d.Stop()
}

func TestHeldNodeStaysUntilItsHoldExpires(t *testing.T) {
	t.Parallel()
	s, _ := newCloudSite(t, 0, 0)
	d := s.start()
	n := s.nodes("small")[0]
	until := time.Now().Add(4 * time.Second)
	if _, err := s.HoldNode(t.Context(), n.ID, "look at it", until); err != nil {
		t.Fatal(err)
	}
	for ; time.Now().Before(until); time.Sleep(200 * time.Millisecond) {
		got := s.census()
		out, err := s.ssh(n, "true")
		switch {
		case !time.Now().Before(until): // it may have ended during the check
		case got != "map[hold:1]":
			t.Fatalf("nodes are %s before the hold ends", got)
		case err != nil:
			t.Fatalf("a held node does not answer: %v: %s", err, out)
		}
	}
	testutil.Await(s.t, "the node is gone", func() bool { return s.census() == "map[]" })
	if time.Now().Before(until) {
		t.Error("the node was gone before its time")
	}
	d.Stop()
}

func TestSIGHUPReloadsConfiguration(t *testing.T) {
	t.Parallel()
	s, port := newCloudSite(t, 1, 0)
	d := s.start()
	testutil.Await(s.t, "one node is ready", func() bool { return s.census() == "map[ready:1]" })
	s.write(strings.Replace(cloudFleet(port, 3), "max_servers", "max_serfers", 1))
	d.Signal(syscall.SIGHUP)
	testutil.Await(s.t, "the error is logged", func() bool { return d.Logged("max_serfers") > 0 && d.Logged("new configuration refused") > 0 })
	if got := s.census(); got != "map[ready:1]" {
		t.Errorf("nodes are %s after an invalid configuration", got)
	}
	s.write(cloudFleet(port, 3))
	d.Signal(syscall.SIGHUP)
	testutil.Await(s.t, "the number of nodes matches the new configuration", func() bool { return s.census() == "map[ready:3]" })
	d.Stop()
}

func TestDaemonResumesAfterKill(t *testing.T) {
	t.Parallel()
	s, _ := newCloudSite(t, 0, 5*time.Second)
	d := s.start()
	var ids []string
	for range 3 {
		r, err := s.CreateRequest(t.Context(), wire.NewRequest{Labels: []string{"small"}})
		testutil.Must(t, err)
		ids = append(ids, r.ID)
	}
	testutil.Await(s.t, "nodes are building", func() bool { return s.census() == "map[building:3]" })
	before, err := s.Nodes(t.Context(), wire.NodeFilter{})
	testutil.Must(t, err)
	d.Signal(syscall.SIGKILL)
	d.Ends(10 * time.Second)
	began := time.Now()
	d = s.start("-refresh=1s") // so that the quota soon reflects deletions
	t.Logf("ready %s after the start", time.Since(began).Round(time.Millisecond))
	given := map[string]bool{}
	for _, id := range ids {
		for _, n := range s.take(id) {
			given[n.ID] = true
			if out, err := s.ssh(n, "true"); err != nil {
				t.Errorf("ssh to node %s: %v: %s", n.ID, err, out)
			}
			if _, err := s.ReturnNode(t.Context(), n.ID); err != nil {
				t.Error(err)
			}
		}
	}
	for _, n := range before {
		if !given[n.ID] {
			t.Errorf("launch of node %s started before the kill and was not resumed; assigned are %v", n.ID, given)
		}
	}
	testutil.Await(s.t, "nothing is left in the cloud", func() bool {
		providers, err := s.Providers(t.Context())
		return err == nil && s.census() == "map[]" && providers[0].Quota != nil && providers[0].Quota.Used.Instances == 0
	})
	d.Stop()
}

func TestSIGTERMEndsDaemonWithinGrace(t *testing.T) {
	t.Parallel()
	s, _ := newCloudSite(t, 0, 20*time.Second)
	d := s.start("-grace=1s")
	r, err := s.CreateRequest(t.Context(), wire.NewRequest{Labels: []string{"small"}})
	testutil.Must(t, err)
	testutil.Await(s.t, "a node is building", func() bool { return s.census() == "map[building:1]" })
	began := time.Now()
	d.Signal(syscall.SIGTERM)
	testutil.Await(s.t, "it says so", func() bool { return d.Logged("stopping: starting no more steps") > 0 })
	if _, err := s.Status(t.Context()); err != nil {
		t.Errorf("it does not answer while it ends: %v", err)
	}
	if code := d.Ends(time.Minute); code != 0 {
		t.Errorf("exit code %d", code)
	}
	took := time.Since(began)
	t.Logf("ended after %s", took.Round(time.Millisecond))
	if took < time.Second {
		t.Errorf("it took %s with 1 s of grace and a node that is not done", took)
	}
	if _, list := s.npctl("node", "list"); !strings.Contains(list, "building") {
		t.Errorf("it has waited for the node, though its grace was over:\n%s", list)
	}
	d = s.start()
	nodes := s.take(r.ID)
	if nodes[0].Attempt != 1 {
		t.Errorf("the node whose launch started before the kill was launched %d times", nodes[0].Attempt)
	}
	d.Stop()
}

func TestSecondSignalEndsDaemonImmediately(t *testing.T) {
	t.Parallel()
	s, _ := newCloudSite(t, 1, time.Minute)
	d := s.start("-grace=1h")
	testutil.Await(s.t, "a node is building", func() bool { return s.census() == "map[building:1]" })
	d.Signal(syscall.SIGTERM)
	testutil.Await(s.t, "it says so", func() bool { return d.Logged("stopping: starting no more steps") > 0 })
	d.Signal(syscall.SIGTERM)
	if code := d.Ends(30 * time.Second); code != 130 { // half of the time that the node takes
		t.Errorf("exit code %d, want 130", code)
	}
}

func TestDaemonUsesSystemdSocket(t *testing.T) {
	t.Parallel()
	s, _ := newCloudSite(t, 0, 0)
	path := filepath.Join(s.dir, "npctl.db.sock")
	opened := listenFiles(t, "unix", path)
	metrics := listenFiles(t, "tcp", "127.0.0.1:0")
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, npctl, "watch", "-config="+s.dir)
	cmd.Env = append(slices.Clone(s.env), "LISTEN_FDS=2", "LISTEN_FDNAMES=api:metrics")
	cmd.ExtraFiles = []*os.File{opened.file, metrics.file}
	d := s.launch(cmd)
	testutil.Await(s.t, "the daemon is ready", func() bool { ready, err := s.Ready(t.Context()); return err == nil && ready })
	answer, err := http.Get("http://" + metrics.address + "/metrics") //nolint:noctx // it answers at once
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("metrics: %v %v", answer, err)
	} else {
		_ = answer.Body.Close()
	}
	d.Stop()
	if _, err := os.Stat(path); err != nil {
		t.Errorf("it removed the socket, which is systemd's: %v", err)
	}
}
