package lab

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

// Nodepool configures a real nodepool-launcher.
type Nodepool struct {
	Driver   string // static: machines without an SSH check; fake: Nodepool's emulated OpenStack, up to 20 servers; test: immediate
	Provider string
	Nodes    int
	Labels   []string
	Image    string // fake driver: a diskimage that another program builds, and from which it boots; empty: a cloud image
	Web      string // address of its web endpoints, such as 127.0.0.1:8005; empty: none
	Env      []string
}

// Launcher is a nodepool-launcher, or another program of Nodepool.
type Launcher struct {
	dir, configuration, program string
	env                         []string
}

// StartLauncher starts a nodepool-launcher on the lab and kills it at the end of the test. Its registration appears
// after some seconds; Peer.AwaitPools waits for it.
func StartLauncher(t testing.TB, l *Lab, n Nodepool) *Launcher {
	t.Helper()
	text, err := script("launcher.sh", append([]string{"config", l.Dir, n.Driver, n.Provider, strconv.Itoa(n.Nodes)}, n.Labels...)...)
	testutil.Must(t, err)
	if n.Image != "" {
		image := "diskimages:\n  - {name: " + n.Image + ", elements: [vm]}\n"
		text = image + strings.NewReplacer("cloud-image: fake-image", "diskimage: "+n.Image, "    pools:\n", "    diskimages:\n      - name: "+n.Image+"\n    pools:\n").Replace(text)
	}
	dir := filepath.Join(l.Dir, "nodepool-"+n.Provider)
	if n.Web != "" {
		host, port, err := net.SplitHostPort(n.Web)
		testutil.Must(t, err)
		text += fmt.Sprintf("webapp: {listen_address: %s, port: %s}\n", host, port)
	}
	return startProgram(t, &Launcher{dir: dir, program: "nodepool-launcher", env: n.Env}, text)
}

// StartProgram starts nodepool-launcher or nodepool-builder with a configuration, and kills it at the end of the test.
// The clouds of DIR/clouds.yaml are available to it. Connection returns the part of the configuration for a lab.
func StartProgram(t testing.TB, dir, program, configuration string) *Launcher {
	t.Helper()
	return startProgram(t, &Launcher{dir: dir, program: program}, configuration)
}

func startProgram(t testing.TB, l *Launcher, configuration string) *Launcher {
	t.Helper()
	l.configuration = l.dir + ".yaml"
	l.Configure(t, configuration)
	t.Cleanup(func() {
		_ = l.Kill() // it may have ended already
		if t.Failed() {
			logFiles(t, filepath.Join(l.dir, "nodepool.log"))
		}
	})
	testutil.Must(t, l.Start())
	return l
}

// Connection returns the part of a nodepool.yaml with the servers of a lab.
func Connection(t testing.TB, dir string) string {
	t.Helper()
	text, err := script("launcher.sh", "connection", dir)
	testutil.Must(t, err)
	return text
}

// Configure replaces the configuration, which the program reads again within seconds.
func (l *Launcher) Configure(t testing.TB, text string) {
	t.Helper()
	testutil.WriteFile(t, l.configuration, text)
}

// Start starts the launcher again.
func (l *Launcher) Start() error {
	_, err := scriptWith(l.env, "launcher.sh", "start", l.dir, l.configuration, l.program)
	return err
}

// Stop stops the launcher in an orderly way.
func (l *Launcher) Stop() error { return l.do("stop") }

// Kill ends the launcher by SIGKILL: its session stays until it times out, which takes 10 s.
func (l *Launcher) Kill() error { return l.do("kill") }

// Pause stops the process of the launcher (SIGSTOP).
func (l *Launcher) Pause() error { return l.do("pause") }

// Continue ends a pause.
func (l *Launcher) Continue() error { return l.do("cont") }

// PID returns the ID of its process.
func (l *Launcher) PID() (int, error) {
	out, err := script("launcher.sh", "pid", l.dir)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(out))
}

func (l *Launcher) do(command string) error {
	_, err := script("launcher.sh", command, l.dir)
	return err
}

// Configuration returns the path of its nodepool.yaml.
func (l *Launcher) Configuration() string { return l.configuration }
