//go:build openstackclient

package emulator

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

// cli runs the real openstack command line client. NPCTL_OPENSTACK names it; otherwise the one in PATH is used.
// Without either the test fails, because the build tag requests it.
type cli struct {
	program string
	env     []string
	dir     string
}

func served(t *testing.T) (*Cloud, cli) {
	t.Helper()
	program := os.Getenv("NPCTL_OPENSTACK")
	if program == "" {
		program = "openstack"
	}
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatalf("the openstack client is needed (test/emulator/run.sh installs it): %v", err)
	}
	dir := t.TempDir()
	cloud := open(t, Options{File: filepath.Join(dir, "cloud.json")})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.Must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, listener, cloud) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	config := filepath.Join(dir, "clouds.yaml")
	testutil.WriteFile(t, config, CloudsYAML(map[string]string{Entry: AuthURL(listener.Addr())}))
	return cloud, cli{path, append(os.Environ(), "OS_CLIENT_CONFIG_FILE="+config, "OS_CLOUD=emulator"), dir}
}

// run runs one command and returns its output.
func (c cli) run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(c.program, args...)
	cmd.Env, cmd.Dir = c.env, c.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("openstack %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// fails runs a command that must fail and returns its output.
func (c cli) fails(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(c.program, args...)
	cmd.Env, cmd.Dir = c.env, c.dir
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("openstack %s worked:\n%s", strings.Join(args, " "), out)
	}
	return string(out)
}

func (c cli) json(t *testing.T, into any, args ...string) {
	t.Helper()
	cmd := exec.Command(c.program, append(args, "-f", "json")...)
	cmd.Env, cmd.Dir = c.env, c.dir
	var talk strings.Builder
	cmd.Stderr = &talk
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("openstack %s: %v\n%s%s", strings.Join(args, " "), err, out, talk.String())
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("openstack %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestOpenStackClientCreatesAndDeletesEverything(t *testing.T) {
	cloud, os1 := served(t)
	testutil.WriteFile(t, filepath.Join(os1.dir, "tiny.raw"), strings.Repeat("x", 4096))
	key := "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl test"
	testutil.WriteFile(t, filepath.Join(os1.dir, "key.pub"), key)
	os1.run(t, "keypair", "create", "--public-key", "key.pub", "lab")
	os1.run(t, "image", "create", "--file", "tiny.raw", "--disk-format", "raw", "--property", "os_distro=debian", "--tag", "x", "tiny")
	os1.run(t, "image", "set", "--property", "os_version=12", "tiny")
	os1.run(t, "image", "save", "--file", "again.raw", "tiny")
	os1.run(t, "security", "group", "create", "ssh")
	os1.run(t, "security", "group", "rule", "create", "--protocol", "tcp", "--dst-port", "22", "ssh")
	os1.run(t, "server", "create", "--image", "tiny", "--flavor", "small", "--network", "private", "--key-name", "lab",
		"--security-group", "ssh", "--property", "a=b", "--wait", "one")
	os1.run(t, "floating", "ip", "create", "--description", "mine", "public")
	var addresses []map[string]any
	os1.json(t, &addresses, "floating", "ip", "list")
	os1.run(t, "server", "add", "floating", "ip", "one", addresses[0]["Floating IP Address"].(string))

	var list []map[string]any
	os1.json(t, &list, "server", "list")
	if len(list) != 1 || list[0]["Name"] != "one" || list[0]["Status"] != "ACTIVE" || list[0]["Image"] != "tiny" || list[0]["Flavor"] != "small" {
		t.Errorf("server list %v", list)
	}
	if nets := list[0]["Networks"].(map[string]any)["private"].([]any); len(nets) != 2 {
		t.Errorf("addresses %v, want a fixed and a floating one", nets)
	}
	var shown map[string]any
	os1.json(t, &shown, "server", "show", "one")
	if shown["key_name"] != "lab" || shown["properties"].(map[string]any)["a"] != "b" {
		t.Errorf("server show %v", shown)
	}
	os1.run(t, "volume", "create", "--size", "1", "--image", "tiny", "--bootable", "vol")
	os1.run(t, "server", "create", "--flavor", "small", "--network", "private", "--volume", "vol", "--wait", "two")
	os1.run(t, "console", "log", "show", "one")

	for _, read := range []string{
		"token issue", "catalog list", "project list --my-projects", "flavor list", "flavor show small", "image list --long",
		"image show tiny", "network list", "network show private", "subnet list", "port list", "router list",
		"security group list", "security group show ssh", "security group rule list", "availability zone list",
		"keypair list", "limits show --absolute", "quota show", "volume list", "volume show vol", "extension list --network",
		"server show two", "floating ip list", "network list --external", "volume type list", "versions show",
		"server list --long", "port list --server one", "image list --tag x",
	} {
		os1.run(t, strings.Fields(read)...)
	}
	if text := os1.fails(t, "server", "create", "--image", "tiny", "--flavor", "gigantic", "--network", "private", "three"); !strings.Contains(text, "gigantic") {
		t.Errorf("unknown flavor: %s", text)
	}
	if text := os1.fails(t, "image", "show", "nosuch"); !strings.Contains(text, "nosuch") {
		t.Errorf("unknown image: %s", text)
	}

	os1.run(t, "server", "delete", "--wait", "one", "two")
	os1.run(t, "volume", "delete", "vol")
	os1.run(t, "floating", "ip", "delete", addresses[0]["Floating IP Address"].(string))
	os1.run(t, "image", "delete", "tiny")
	os1.run(t, "security", "group", "delete", "ssh")
	os1.run(t, "keypair", "delete", "lab")
	if left, err := cloud.Inventory(); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestOpenStackClientPrintsErrorsOfTheCloud(t *testing.T) {
	cloud, os1 := served(t)
	q := DefaultQuota()
	q.Instances = 0
	testutil.Must(t, cloud.store.seed(Options{Quota: &q, Zones: cloud.options.Zones}, cloud.now()))
	testutil.WriteFile(t, filepath.Join(os1.dir, "tiny.raw"), "x")
	os1.run(t, "image", "create", "--file", "tiny.raw", "--disk-format", "raw", "tiny")
	text := os1.fails(t, "server", "create", "--image", "tiny", "--flavor", "small", "--network", "private", "one")
	if !strings.Contains(text, "Quota exceeded for instances: Requested 1, but already used 0 of 0 instances") || !strings.Contains(text, "403") {
		t.Errorf("over quota: %s", text)
	}
	if text := os1.fails(t, "--os-password", "wrong", "token", "issue"); !strings.Contains(text, "HTTP 401") {
		t.Errorf("wrong password: %s", text)
	}
}
