//go:build integration

// Package qemu tests npctl with machines of the real QEMU. test/qemu/run.sh runs it.
package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/program"
)

var npctl string

func TestMain(m *testing.M) { os.Exit(program.Main(m, &npctl)) }

// place is a directory with a configuration.
type place struct {
	t   *testing.T
	dir string
}

// newPlace writes a configuration and the values of the example's variables. After the test no machine runs.
func newPlace(t *testing.T, configuration string) *place {
	t.Helper()
	image := os.Getenv("NPCTL_QEMU_IMAGE")
	if image == "" {
		t.Fatal("set NPCTL_QEMU_IMAGE, as test/qemu/run.sh does")
	}
	p := &place{t, t.TempDir()}
	testutil.Must(t, exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", p.path("key")).Run())
	p.write("npctl.hcl", configuration)
	p.values(image, 256)
	t.Cleanup(func() {
		if left := p.processes(); len(left) > 0 {
			t.Errorf("processes run after the test: %v", left)
			for _, pid := range left {
				if process, err := os.FindProcess(pid); err == nil {
					_ = process.Kill()
				}
			}
		}
	})
	return p
}

func (p *place) path(names ...string) string {
	return filepath.Join(append([]string{p.dir}, names...)...)
}

func (p *place) write(name, content string) {
	p.t.Helper()
	testutil.WriteFile(p.t, p.path(name), content)
}

func (p *place) values(image string, ram int) {
	p.t.Helper()
	key := strings.TrimSpace(testutil.ReadFile(p.t, p.path("key.pub")))
	p.write("site.auto.vars.hcl", "image = "+strconv.Quote(image)+"\nssh_key = "+strconv.Quote(key)+"\naccel = \"tcg\"\nram = "+strconv.Itoa(ram)+"\n")
}

func (p *place) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, npctl, args...)
	cmd.Dir = p.dir
	return cmd
}

// try runs npctl and returns its output.
func (p *place) try(args ...string) (string, error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 2*time.Minute)
	defer cancel()
	output, err := p.command(ctx, args...).CombinedOutput()
	return string(output), err
}

// run runs npctl, which must succeed and print all words.
func (p *place) run(args string, words ...string) string {
	p.t.Helper()
	output, err := p.try(strings.Fields(args)...)
	if err != nil {
		p.t.Fatalf("npctl %s: %v\n%s", args, err, output)
	}
	for _, word := range words {
		if !strings.Contains(output, word) {
			p.t.Fatalf("npctl %s does not print %q:\n%s", args, word, output)
		}
	}
	return output
}

// node is a node as npctl prints it.
type node struct {
	ID       string   `json:"id"`
	State    string   `json:"state"`
	Cloud    string   `json:"external_id"`
	HostKeys []string `json:"host_keys"`
	Login    struct {
		Username string `json:"username"`
		Type     string `json:"connection_type"`
		Port     int    `json:"connection_port"`
	} `json:"login"`
}

func (p *place) nodes() []node {
	p.t.Helper()
	var list struct {
		Nodes []node `json:"nodes"`
	}
	testutil.Must(p.t, json.Unmarshal([]byte(p.run("node list -json")), &list))
	return list.Nodes
}

// onlyNode returns the node, of which there must be one.
func (p *place) onlyNode() node {
	p.t.Helper()
	list := p.nodes()
	if len(list) != 1 {
		p.t.Fatalf("nodes are %+v, want one", list)
	}
	return list[0]
}

// ssh runs a command on a node and accepts only the host keys in its record.
func (p *place) ssh(n node, command string) string {
	p.t.Helper()
	var known strings.Builder
	for _, key := range n.HostKeys {
		known.WriteString("[127.0.0.1]:" + strconv.Itoa(n.Login.Port) + " " + key + "\n")
	}
	p.write("known_hosts", known.String())
	output, err := p.sshTo(n.Login.Username, "127.0.0.1", strconv.Itoa(n.Login.Port), command)
	if err != nil {
		p.t.Fatalf("ssh to node %s: %v\n%s", n.ID, err, output)
	}
	return output
}

// sshTo runs a command on a machine whose host keys are in known_hosts.
func (p *place) sshTo(user, host, port, command string) (output string, err error) {
	out, err := exec.CommandContext(p.t.Context(), "ssh", "-i", p.path("key"), "-o", "StrictHostKeyChecking=yes", "-o", "UserKnownHostsFile="+p.path("known_hosts"),
		"-o", "ConnectTimeout=20", "-p", port, user+"@"+host, command).CombinedOutput()
	return string(out), err
}

// machines returns the files of all machines.
func (p *place) machines() []string {
	p.t.Helper()
	files, err := filepath.Glob(p.path(".npctl", "providers", "*", "machines", "*", "*"))
	testutil.Must(p.t, err)
	return files
}

// processes returns the QEMU processes of the place.
func (p *place) processes() (list []int) {
	p.t.Helper()
	entries, err := os.ReadDir("/proc")
	testutil.Must(p.t, err)
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline")) // empty for a zombie
		if errors.Is(err, fs.ErrNotExist) || !strings.Contains(string(line), "-pidfile\x00"+p.dir) {
			continue
		}
		list = append(list, pid)
	}
	return list
}

// gone checks that nothing of any machine is left.
func (p *place) gone() {
	p.t.Helper()
	if files, running := p.machines(), p.processes(); len(files) > 0 || len(running) > 0 {
		p.t.Errorf("left are %q and processes %v", files, running)
	}
}
