//go:build integration

package integration

import (
	"crypto/md5" //nolint:gosec // Glance's checksum
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/test/openstack/lab"
)

// onInstance makes an image on a machine that boots from an image which npctl has uploaded. The machine has an address
// of this host's own, at which OpenSSH plays its server.
const onInstance = settings + `
diskimage "base" {
  builder "exec" { command = ["sh", "-c", "head -c 1000000 /dev/zero >$NPCTL_OUTPUT.raw"] }
  username = "root"
}
GOLDEN
label "base"   {}

provider "openstack" "acme" {
  cloud        = "mine"
  image_format = "raw"
  pool "main" {
    networks          = ["private"]
    host_key_checking = false
    auto_floating_ip  = true
    key_name          = "lab"
    label "base" {
      image  = diskimage.base
      flavor = "small"
    }
OFFER
  }
}
`

const golden = `
diskimage "golden" {
  builder "snapshot" {
    provider         = "acme"
    label            = "base"
    script           = "setup.sh"
    private_key_file = "id"
    host_keys        = [file("host.pub")]
    secret_env       = { TOKEN = "hunter2" }
    shutdown_command = "kill $PPID"
  }
}
label "golden" {}
`

const goldenOffer = `
    label "golden" {
      image  = diskimage.golden
      flavor = "small"
    }
`

// sshd is an OpenSSH server for the machines of a place: it starts at the address of each that a build boots.
type sshd struct {
	at      *place
	p       *project
	stop    chan struct{}
	stopped chan struct{}
	started []string // addresses
}

// answers starts to wait for machines.
func (p *project) answers(at *place) *sshd {
	p.t.Helper()
	for _, name := range []string{"id", "host"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", filepath.Join(at.dir, name)).CombinedOutput(); err != nil {
			p.t.Fatalf("ssh-keygen: %v\n%s", err, out)
		}
	}
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		p.t.Fatal(err)
	}
	s := &sshd{at: at, p: p, stop: make(chan struct{}), stopped: make(chan struct{})}
	go s.watch()
	p.t.Cleanup(func() { close(s.stop); <-s.stopped })
	return s
}

// watch starts a server for each new address, and stops them all in the end.
func (s *sshd) watch() {
	defer close(s.stopped)
	running := map[string]*exec.Cmd{}
	defer func() {
		for _, cmd := range running {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}()
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		for _, address := range s.machines() {
			if running[address] != nil {
				continue
			}
			cmd := exec.Command("/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null", "-h", filepath.Join(s.at.dir, "host"), "-o", "ListenAddress="+address+":22",
				"-o", "AuthorizedKeysFile="+filepath.Join(s.at.dir, "id.pub"), "-o", "StrictModes=no", "-o", "PidFile=none", "-o", "UsePAM=no")
			log, err := os.OpenFile(filepath.Join(s.at.dir, "sshd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				s.p.t.Error(err)
				return
			}
			cmd.Stderr = log
			if err := cmd.Start(); err != nil {
				s.p.t.Errorf("sshd: %v", err)
				return
			}
			_ = log.Close()
			running[address] = cmd
			s.started = append(s.started, address)
		}
	}
}

// machines are the floating addresses of the servers that builds have booted.
func (s *sshd) machines() (addresses []string) {
	_, answer, err := s.p.try(s.p.t.Context(), "GET", compute, "servers/detail", nil)
	list, ok := answer["servers"].([]any)
	if err != nil || !ok {
		return nil
	}
	for _, one := range list {
		server := one.(object)
		if server["metadata"].(object)["npctl_build_id"] == nil {
			continue
		}
		for _, network := range server["addresses"].(object) {
			for _, a := range network.([]any) {
				if a.(object)["OS-EXT-IPS:type"] == "floating" {
					addresses = append(addresses, a.(object)["addr"].(string))
				}
			}
		}
	}
	return addresses
}

// snapshotPlace has the base image in the cloud already.
func snapshotPlace(t *testing.T) (*project, *place, map[string]thing) {
	t.Helper()
	p := newProject(t).furnish()
	before := p.things()
	at := p.newPlace("")
	p.answers(at)
	at.script(`echo "set up by $(id -un), token $TOKEN"; echo "$NPCTL_IMAGE_NAME $NPCTL_BUILD_ID" >>` + at.dir + `/ran`)
	at.write(strings.NewReplacer("GOLDEN", "", "OFFER", "").Replace(onInstance))
	at.mustRun(0, "apply", "-auto-approve").ends("Apply complete: 1 built, 1 uploaded, 0 launched, 0 deleted.")
	at.write(strings.NewReplacer("GOLDEN", golden, "OFFER", goldenOffer).Replace(onInstance))
	return p, at, before
}

func (at *place) script(text string) {
	at.t.Helper()
	if err := os.WriteFile(filepath.Join(at.dir, "setup.sh"), []byte(text+"\n"), 0o600); err != nil {
		at.t.Fatal(err)
	}
}

// images lists the images of the project by name, without the serial part that npctl gives them.
func (p *project) images() map[string]object {
	p.t.Helper()
	found := map[string]object{}
	for _, t := range of(p.things(), "image") {
		name, _, _ := strings.Cut(t.name, "-")
		found[name] = t.object
	}
	return found
}

// onlyTheImages fails the test when a build has left anything in the project.
func (p *project) onlyTheImages(before map[string]thing, names ...string) {
	p.t.Helper()
	new := without(p.things(), before)
	if n := count(new); n["image"] != len(names) || len(n) > 1 {
		p.t.Errorf("new in the project: %v, want images %v and nothing else", lines(new), names)
	}
	found := p.images()
	for _, name := range names {
		if found[name] == nil || found[name]["npctl_upload_id"] == nil || found[name]["npctl_build_id"] != nil {
			p.t.Errorf("image %s is %v, want an upload of npctl's", name, found[name])
		}
	}
}

// TestOpenStackSnapshotBuild makes an image with Nova's createImage, reads it from Glance, and uploads it as any other.
func TestOpenStackSnapshotBuild(t *testing.T) {
	t.Parallel()
	p, at, before := snapshotPlace(t)
	base := p.images()["base"]["id"]

	at.mustRun(0, "apply", "-auto-approve").ends("Apply complete: 1 built, 1 uploaded, 0 launched, 0 deleted.")
	p.onlyTheImages(before, "base", "golden")
	if p.images()["base"]["id"] != base {
		t.Error("the image that the machine was made from was replaced")
	}
	files, _ := filepath.Glob(filepath.Join(at.dir, "images", "golden-*.raw"))
	if len(files) != 1 {
		t.Fatalf("image files %v, want one", files)
	}
	disk, err := os.ReadFile(files[0])
	if err != nil || !strings.HasPrefix(string(disk), "snapshot of ") || !strings.Contains(string(disk[:200]), fmt.Sprint("made from image ", base)) {
		t.Errorf("the image holds %q, %v; want the disk of the machine", disk[:min(len(disk), 100)], err)
	}
	if sum := md5.Sum(disk); p.images()["golden"]["checksum"] != hex.EncodeToString(sum[:]) { //nolint:gosec // Glance's checksum
		t.Error("what was uploaded is not what was built")
	}
	logs, _ := filepath.Glob(filepath.Join(at.dir, "build-logs", "golden-*.log"))
	if len(logs) != 1 {
		t.Fatalf("logs %v, want one", logs)
	}
	log, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"its host key is the one that is known: ssh-ed25519 SHA256:", "set up by root, token (sensitive)\n", "Exit code: 0", "the machine has hung up"} {
		if !strings.Contains(string(log), want) {
			t.Errorf("log lacks %q:\n%s", want, log)
		}
	}
	at.nothingToDo()

	at.script("echo changed") // rebuilds, and nothing else
	at.mustRun(0, "apply", "-auto-approve").says("1 built, 1 uploaded")
	at.settled()
	at.mustRun(0, "destroy", "-auto-approve")
	p.mustBe(before)
}

// TestOpenStackSnapshotBuildThatFails leaves no machine and no snapshot, whatever fails.
func TestOpenStackSnapshotBuildThatFails(t *testing.T) {
	p, at, before := snapshotPlace(t)
	fails := func(because ...string) {
		t.Helper()
		at.mustRun(1, "apply", "-auto-approve", "-replace=diskimage.golden").says(because...)
		p.onlyTheImages(before, "base")
	}
	at.script("echo there is no such package >&2; exit 4")
	fails("setup.sh ended with exit code 4", "there is no such package")

	at.script("true")
	p.faults(lab.Rule{On: lab.Snapshot, Name: "npctl-build-*"})
	fails("the cloud could not make the snapshot")

	p.faults(lab.Rule{On: lab.Spawn, Action: lab.Abort, Name: "npctl-build-*"})
	fails("boot a machine of label base in provider acme")
	p.faults()

	at.change("host_keys        = [file(\"host.pub\")]", "host_keys        = [file(\"id.pub\")]")
	fails("shows the host key ssh-ed25519", "somebody else answers")
	at.gone(p, before)
}

// TestOpenStackSnapshotBuildThatIsKilled leaves a machine, which the next apply removes before it makes another.
func TestOpenStackSnapshotBuildThatIsKilled(t *testing.T) {
	t.Parallel()
	p, at, before := snapshotPlace(t)
	at.script("touch " + at.dir + "/running; test -e " + at.dir + "/again || sleep 600")
	cmd, _, _ := at.command(t.Context(), "apply", "-auto-approve")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the script runs", func() bool { _, err := os.Stat(filepath.Join(at.dir, "running")); return err == nil })
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if n := count(without(p.things(), before)); n["server"] != 1 {
		t.Errorf("after the kill there is %v, want the machine: the test tests nothing", n)
	}
	if err := os.WriteFile(filepath.Join(at.dir, "again"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	at.settled()
	p.onlyTheImages(before, "base", "golden")
	at.gone(p, before)
}
