//go:build integration

package integration

import (
	"crypto/md5" //nolint:gosec // Glance's checksum
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/openstack/lab"
)

// onInstance builds an image on an instance that boots from an image uploaded by npctl. The address of the instance
// belongs to this host, and an OpenSSH server on it plays the instance.
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

// serveBuildInstances plays the build instances at their floating IPs, with the host key in the configuration.
func (p *project) serveBuildInstances(at *place) {
	p.t.Helper()
	at.keygen("host")
	p.sshd(at, func(string) string { return "host" }, func(server object) string {
		if server["metadata"].(object)["npctl_build_id"] == nil {
			return ""
		}
		floating, _ := addressesOf(server)
		return floating
	})
}

// snapshotPlace returns a place with the base image already in the cloud.
func snapshotPlace(t *testing.T) (*project, *place, map[string]thing) {
	t.Helper()
	p := newProject(t).createUsualObjects()
	before := p.things()
	at := p.newPlace("")
	p.serveBuildInstances(at)
	at.script(`echo "set up by $(id -un), token $TOKEN"; echo "$NPCTL_IMAGE_NAME $NPCTL_BUILD_ID" >>` + at.dir + `/ran`)
	at.write(strings.NewReplacer("GOLDEN", "", "OFFER", "").Replace(onInstance))
	at.mustRun(0, "apply", "-auto-approve").endsWith("Apply complete: 1 built, 1 uploaded, 0 launched, 0 deleted.")
	at.write(strings.NewReplacer("GOLDEN", golden, "OFFER", goldenOffer).Replace(onInstance))
	return p, at, before
}

func (at *place) script(text string) {
	at.t.Helper()
	testutil.WriteFile(at.t, filepath.Join(at.dir, "setup.sh"), text+"\n")
}

// images returns the images of the project by name, without the serial part that npctl appends.
func (p *project) images() map[string]object {
	p.t.Helper()
	found := map[string]object{}
	for _, t := range of(p.thingsOfKind("image"), "image") {
		name, _, _ := strings.Cut(t.name, "-")
		found[name] = t.object
	}
	return found
}

// onlyTheImages fails the test if a build has left any other object in the project.
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

// TestOpenStackSnapshotBuild creates an image with Nova's createImage, downloads it from Glance, and uploads it like
// any other.
func TestOpenStackSnapshotBuild(t *testing.T) {
	t.Parallel()
	p, at, before := snapshotPlace(t)
	base := p.images()["base"]["id"]

	at.mustRun(0, "apply", "-auto-approve").endsWith("Apply complete: 1 built, 1 uploaded, 0 launched, 0 deleted.")
	p.onlyTheImages(before, "base", "golden")
	if p.images()["base"]["id"] != base {
		t.Error("the base image of the machine was replaced")
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
		t.Error("the upload differs from the build")
	}
	logs, _ := filepath.Glob(filepath.Join(at.dir, "build-logs", "golden-*.log"))
	if len(logs) != 1 {
		t.Fatalf("logs %v, want one", logs)
	}
	log, err := os.ReadFile(logs[0])
	testutil.Must(t, err)
	for _, want := range []string{"its host key is a known one: ssh-ed25519 SHA256:", "set up by root, token (sensitive)\n", "Exit code: 0", "the instance has closed the connection"} {
		if !strings.Contains(string(log), want) {
			t.Errorf("log lacks %q:\n%s", want, log)
		}
	}
	at.nothingToDo()

	at.script("echo changed") // causes a rebuild, and nothing else
	at.mustRun(0, "apply", "-auto-approve").contains("1 built, 1 uploaded")
	at.applyUntilSettled()
	at.mustRun(0, "destroy", "-auto-approve")
	p.mustBe(before)
}

// TestOpenStackFailedSnapshotBuild checks that no failure leaves an instance or a snapshot.
func TestOpenStackFailedSnapshotBuild(t *testing.T) {
	p, at, before := snapshotPlace(t)
	fails := func(because ...string) {
		t.Helper()
		at.mustRun(1, "apply", "-auto-approve", "-replace=diskimage.golden").contains(because...)
		p.onlyTheImages(before, "base")
	}
	at.script("echo there is no such package >&2; exit 4")
	fails("setup.sh ended with exit code 4", "there is no such package")

	at.script("true")
	p.faults(lab.Rule{On: lab.Snapshot, Name: "npctl-build-*"})
	fails("the cloud could not create the snapshot")

	p.faults(lab.Rule{On: lab.Spawn, Action: lab.Abort, Name: "npctl-build-*"})
	fails("boot an instance of label base in provider acme")
	p.faults()

	at.change("host_keys        = [file(\"host.pub\")]", "host_keys        = [file(\"id.pub\")]")
	fails("has the host key ssh-ed25519", "another computer answers")
	at.gone(p, before)
}

// TestOpenStackKilledSnapshotBuild leaves an instance, which the next apply removes before it creates another.
func TestOpenStackKilledSnapshotBuild(t *testing.T) {
	t.Parallel()
	p, at, before := snapshotPlace(t)
	at.script("touch " + at.dir + "/running; test -e " + at.dir + "/again || sleep 600")
	cmd, _, _ := at.command(t.Context(), "apply", "-auto-approve")
	testutil.Must(t, cmd.Start())
	eventually(t, "the script runs", func() bool { _, err := os.Stat(filepath.Join(at.dir, "running")); return err == nil })
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if n := count(without(p.things(), before)); n["server"] != 1 {
		t.Errorf("after the kill there is %v, want the machine: the test tests nothing", n)
	}
	testutil.Must(t, os.WriteFile(filepath.Join(at.dir, "again"), nil, 0o600))
	at.applyUntilSettled()
	p.onlyTheImages(before, "base", "golden")
	at.gone(p, before)
}
