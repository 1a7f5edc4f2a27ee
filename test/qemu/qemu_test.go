//go:build integration

package qemu

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/test/program"
	"github.com/npctl/npctl/test/zuul/executor"
)

func example(t *testing.T) string {
	t.Helper()
	return testutil.ReadFile(t, "../../examples/qemu.hcl")
}

func TestExampleOnRealMachines(t *testing.T) {
	p := newPlace(t, example(t))
	p.run("plan", "1 to launch, 0 to delete")
	p.run("apply -auto-approve", "1 launched")
	first := p.onlyNode()
	if first.State != "ready" || first.Login.Port == 0 || first.Login.Username != "zuul" || len(first.HostKeys) == 0 {
		t.Errorf("node is %+v", first)
	}
	if name := p.ssh(first, "hostname; id -un"); name != "np"+first.ID+"\nzuul\n" {
		t.Errorf("the node has the hostname and user %q", name)
	}
	p.run("plan", "No changes")

	// A machine that others have put into the directory stays.
	foreign := p.path(".npctl", "providers", "here", "machines", "by-hand")
	testutil.Must(t, os.Mkdir(foreign, 0o700))
	testutil.WriteFile(t, filepath.Join(foreign, "machine.json"), `{"id": "by-hand", "name": "by-hand", "created": "2026-01-01T00:00:00Z", "cores": 1, "ram": 64, "port": 1, "image": "x"}`)

	running := p.processes()
	if len(running) != 1 {
		t.Fatalf("processes are %v, want one", running)
	}
	testutil.Must(t, syscall.Kill(running[0], syscall.SIGKILL))
	testutil.Await(t, "the end of QEMU", func() bool { // its memory goes before its lock
		return strings.Contains(p.run("plan"), "1 to launch, 1 to delete")
	})
	p.run("apply -auto-approve", "1 launched")
	second := p.onlyNode()
	if second.Cloud == first.Cloud || second.State != "ready" {
		t.Errorf("node is %+v after its machine was killed", second)
	}

	p.values(os.Getenv("NPCTL_QEMU_IMAGE"), 300)
	p.run("plan", "ram = 256 -> 300", "forces replacement")
	p.run("destroy -auto-approve", "1 deleted")
	if files := p.machines(); len(files) != 1 || filepath.Dir(files[0]) != foreign {
		t.Errorf("files are %q, want only those of %s", files, foreign)
	}
	testutil.Must(t, os.RemoveAll(foreign))
	p.gone()
}

// served is the example without standing nodes, with an uploaded image and with user data.
func served(t *testing.T) string {
	t.Helper()
	text := strings.Replace(example(t), "min_ready = 1", "min_ready = 0", 1)
	return strings.Replace(text, `user     = "zuul"`, `user     = "zuul"
      userdata = "#!/bin/sh\necho from-user-data >/run/userdata\n"`, 1)
}

func TestWatchServesARequest(t *testing.T) {
	p := newPlace(t, served(t))
	daemon := program.Start(t, p.command(t.Context(), "watch"), p.path("watch.log"))
	testutil.Await(t, "the daemon", func() bool { _, err := p.try("status"); return err == nil && daemonAnswers(p) })
	output := p.run("request create -label=vm -wait -take -json")
	if !json.Valid([]byte(output)) {
		t.Errorf("output is %s", output)
	}
	n := p.onlyNode()
	if n.State != "in-use" || n.Login.Type != "ssh" || n.Login.Port == 0 {
		t.Errorf("node is %+v", n)
	}
	if text := p.ssh(n, "cat /run/userdata"); text != "from-user-data\n" {
		t.Errorf("user data wrote %q", text)
	}
	// Zuul's executor connects with the address, the user, the port and the host keys of the node.
	var shown struct {
		Nodes []resources.Node `json:"nodes"`
	}
	testutil.Must(t, json.Unmarshal([]byte(p.run("node list -json")), &shown))
	host := executor.HostOf(t, shown.Nodes[0])
	if host.Vars["ansible_connection"] != "ssh" || host.Vars["ansible_ssh_common_args"] != nil || len(host.Keys) == 0 {
		t.Errorf("Zuul's executor has the variables %v and the keys %q", host.Vars, host.Keys)
	}
	p.write("known_hosts", strings.Join(host.Keys, "\n")+"\n")
	output, err := p.sshTo(fmt.Sprint(host.Vars["ansible_user"]), fmt.Sprint(host.Vars["ansible_host"]), fmt.Sprint(host.Vars["ansible_port"]), "echo from-zuul")
	if err != nil || output != "from-zuul\n" {
		t.Errorf("ssh as Zuul's executor: %v: %s", err, output)
	}

	// The machine survives the daemon, and the next daemon deletes it.
	daemon.Kill()
	if text := p.ssh(n, "echo alive"); text != "alive\n" {
		t.Errorf("after the end of npctl: %q", text)
	}
	again := program.Start(t, p.command(t.Context(), "watch"), p.path("watch.log"))
	testutil.Await(t, "the daemon", func() bool { return daemonAnswers(p) })
	p.run("node return " + n.ID)
	testutil.Await(t, "the deletion", func() bool { return len(p.machines()) == 0 && len(p.processes()) == 0 })
	again.Stop()
	p.run("destroy -auto-approve")
	p.gone()
}

func daemonAnswers(p *place) bool {
	output, err := p.try("request", "list")
	return err == nil && !strings.Contains(output, "not running")
}

// quick is the example with two machines that count as ready when QEMU runs.
func quick(t *testing.T, programs string) string {
	t.Helper()
	text := strings.Replace(example(t), "min_ready = 1", "min_ready = 2", 1)
	text = strings.Replace(text, "max_servers = 4", "host_key_checking = false", 1)
	text = strings.Replace(text, "npctl {\n", "npctl {\n  leak_age = \"1s\"\n", 1)
	return strings.Replace(text, `boot_timeout = "10m"`, `boot_timeout = "10m"`+"\n"+programs, 1)
}

// gated writes programs that run the real ones, note that in the file runs, and kill npctl once before or after that.
func (p *place) gated() string {
	p.t.Helper()
	var lines strings.Builder
	for attribute, name := range map[string]string{"program": "qemu-system-x86_64", "qemu_img": "qemu-img"} {
		p.write(name, `#!/bin/sh
echo `+name+` >>"`+p.dir+`/runs"
if rm "`+p.dir+`/before-`+name+`" 2>/dev/null; then kill -9 $PPID; fi
/usr/bin/`+name+` "$@"
code=$?
if rm "`+p.dir+`/after-`+name+`" 2>/dev/null; then kill -9 $PPID; fi
exit $code
`)
		testutil.Must(p.t, os.Chmod(p.path(name), 0o755))
		lines.WriteString("  " + attribute + " = \"" + p.path(name) + "\"\n")
	}
	return lines.String()
}

// TestProgramsOfTenMachines counts the programs that npctl runs to launch and to delete machines. There is no API to call.
func TestProgramsOfTenMachines(t *testing.T) {
	const machines = 10
	p := newPlace(t, "")
	p.write("npctl.hcl", strings.Replace(quick(t, p.gated()+"  max_cores = 10\n"), "min_ready = 2", "min_ready = 10", 1))
	p.values(os.Getenv("NPCTL_QEMU_IMAGE"), 64)
	p.run("apply -auto-approve", "10 launched")
	p.run("destroy -auto-approve", "10 deleted")
	p.gone()
	runs := map[string]int{}
	for _, name := range strings.Fields(testutil.ReadFile(t, p.path("runs"))) {
		runs[name]++
	}
	t.Logf("%d machines cost these runs of programs: %v", machines, runs)
	if runs["qemu-img"] > machines+4 || runs["qemu-system-x86_64"] > machines+4 {
		t.Errorf("runs of programs: %v", runs)
	}
}

// settle repeats a command until it has nothing to do. The killed npctl may have left a machine without a record, which
// npctl deletes after leak_age.
func (p *place) settle(command string) {
	p.t.Helper()
	var output string
	for range 5 {
		var err error
		output, err = p.try(command, "-auto-approve")
		if err == nil && strings.Contains(output, "No changes.") && !strings.Contains(output, "has our ownership tags and ") {
			return
		}
		if strings.Contains(output, "has our ownership tags and ") {
			time.Sleep(time.Second) // leak_age
		}
	}
	p.t.Fatalf("npctl %s still has something to do:\n%s", command, output)
}

// two checks that two machines run, and nothing else. A start that the killed npctl has requested may still be in progress.
func (p *place) two() {
	p.t.Helper()
	if nodes := p.nodes(); len(nodes) != 2 {
		p.t.Errorf("nodes are %+v, want two", nodes)
	}
	testutil.Await(p.t, "two processes", func() bool { return len(p.processes()) == 2 })
}

func TestKilledBeforeAndAfterEachProgram(t *testing.T) {
	p := newPlace(t, "")
	p.write("npctl.hcl", quick(t, p.gated()))
	for _, moment := range []string{"before-qemu-img", "after-qemu-img", "before-qemu-system-x86_64", "after-qemu-system-x86_64"} {
		p.write(moment, "")
		output, err := p.try("apply", "-auto-approve")
		if err == nil {
			t.Errorf("%s: npctl was to be killed:\n%s", moment, output)
		}
		if moment == "before-qemu-img" { // a destroy instead of an apply is next
			p.settle("destroy")
			p.gone()
		}
		p.settle("apply")
		p.two()
		p.settle("destroy")
		p.gone()
	}
}
