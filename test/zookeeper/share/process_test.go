//go:build integration

package share

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/cloudlab"
	"github.com/npctl/npctl/test/program"
	"github.com/npctl/npctl/test/zookeeper/lab"
	"github.com/npctl/npctl/watch/httpapi/client"
)

// npctl is the program under test.
var npctl string

func TestMain(m *testing.M) { os.Exit(program.MainParallel(m, &npctl, 6)) }

const (
	session  = 3 * time.Second // session timeout of the processes
	logShown = 96 << 10        // bytes of each log that the output of a failed test contains
)

// machine is the environment of an npctl: a directory with a configuration and a private file, and its connection to
// ZooKeeper.
type machine struct {
	t    *testing.T
	name string
	dir  string
	link *lab.Proxy
	env  []string
	*client.Client
	*program.Process          // the newest process
	options          []string // additional options of npctl watch
}

// newMachine creates a machine with an npctl that serves the providers of the configuration, which follows the block
// npctl.
func newMachine(t *testing.T, zk *lab.Lab, name, configuration string, clouds ...*cloud) *machine {
	t.Helper()
	dir, err := os.MkdirTemp("", "npctl") //nolint:usetesting // the path of a socket is short
	testutil.Must(t, err)
	m := &machine{t: t, name: name, dir: dir, link: lab.StartProxy(t, zk.Hosts), env: os.Environ()}
	for _, c := range clouds {
		m.env = append(m.env, "OS_CLIENT_CONFIG_FILE="+cloudlab.CloudsYAML(t, c.Served))
	}
	text := fmt.Sprintf(`
npctl {
  images_dir = "images"
  leak_age   = "2s"
  leak_limit = 50
  state "zookeeper" {
    hosts           = [%q]
    session_timeout = %q
    file            = "npctl.db"
    tls {
      cert = %q
      key  = %q
      ca   = %q
    }
  }
}
`, m.link.Address(), session, zk.Cert, zk.Key, zk.CA) + configuration
	testutil.WriteFile(t, filepath.Join(dir, "npctl.hcl"), text)
	if m.Client, err = client.New(client.Options{Socket: filepath.Join(dir, "npctl.db.sock")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.clean)
	return m
}

func (m *machine) clean() {
	var log []byte
	if m.Process != nil {
		m.Kill()
		log = m.Log()
	}
	for _, bug := range []string{"DATA RACE", "panic: "} {
		if bytes.Contains(log, []byte(bug)) {
			m.t.Errorf("the log of %s has a %s", m.name, bug)
		}
	}
	if m.t.Failed() {
		m.t.Logf("log of %s:\n%s", m.name, log[max(0, len(log)-logShown):])
	}
	if os.Getenv("NPCTL_KEEP") != "" {
		m.t.Logf("kept: %s %s", m.name, m.dir)
		return
	}
	_ = os.RemoveAll(m.dir)
}

// launch starts a process without waiting until it is ready.
func (m *machine) launch() {
	m.t.Helper()
	options := append([]string{"watch", "-refresh=2s", "-grace=5s", "-log-level=" + level()}, m.options...)
	m.Process = program.Start(m.t, m.command(options...), filepath.Join(m.dir, "log"))
}

func level() string {
	if os.Getenv("NPCTL_DEBUG") != "" {
		return "debug"
	}
	return "info"
}

func (m *machine) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.WithoutCancel(m.t.Context()), npctl, append([]string{"-chdir=" + m.dir}, args...)...)
	cmd.Env = m.env
	return cmd
}

// start starts a process and waits until it is ready.
func (m *machine) start() *machine {
	m.t.Helper()
	m.launch()
	testutil.Await(m.t, m.name+" is ready", func() bool { ready, err := m.Ready(m.t.Context()); return err == nil && ready })
	return m
}

// provider returns the process's view of a provider.
func (m *machine) provider(name string) (p wire.Provider) {
	ctx, cancel := context.WithTimeout(m.t.Context(), 20*time.Second)
	defer cancel()
	all, err := m.Providers(ctx)
	if err != nil {
		return p
	}
	for _, one := range all {
		if one.Name == name {
			return one
		}
	}
	return p
}

// openstackProvider returns a provider that offers labels in a pool with the given number of servers.
func openstackProvider(name string, servers int, priority int, labels ...string) string {
	var offers, declared strings.Builder
	for _, label := range labels {
		fmt.Fprintf(&declared, "label %q {}\n", label)
		fmt.Fprintf(&offers, "    label %q {\n      image  = cloud_image.debian\n      flavor = \"small\"\n    }\n", label)
	}
	return declared.String() + fmt.Sprintf(`
provider "openstack" %q {
  cloud = "emulator"
  rate  = 0
  cloud_image "debian" { filters = { name = "debian" } }
  pool "main" {
    priority          = %d
    networks          = ["private"]
    host_key_checking = false
    max_servers       = %d
%s  }
}
`, name, priority, servers, offers.String())
}

// staticProvider returns a provider with the given number of machines with labels, which npctl does not check.
func staticProvider(name string, machines, priority int, labels ...string) string {
	var text strings.Builder
	for _, label := range labels {
		fmt.Fprintf(&text, "label %q {}\n", label)
	}
	fmt.Fprintf(&text, "provider \"static\" %q {\n  pool \"main\" {\n    priority = %d\n", name, priority)
	for i := range machines {
		fmt.Fprintf(&text, "    node %q {\n      labels            = [\"%s\"]\n      host_key_checking = false\n    }\n",
			fmt.Sprintf("127.2.0.%d", i+1), strings.Join(labels, `", "`))
	}
	return text.String() + "  }\n}\n"
}
