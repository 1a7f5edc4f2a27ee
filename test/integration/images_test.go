//go:build integration

package integration

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
)

// debian is a configuration that builds a Debian and uploads it to the sandbox cloud of npctl.
const debian = `
npctl {
  images_dir    = "images"
  build_log_dir = "logs"
  state "bolt" { path = "npctl.db" }
}
diskimage "debian" {
  builder "dib" {
    elements      = ["debian-tiny"]
    element_paths = ["ELEMENTS"]
    release       = "bookworm"
    extra_args    = ["-n"]
    env           = ENV
  }
}
label "debian" { min_ready = 1 }
provider "sandbox" "box" {
  image_format = "raw"
  pool "main" {
    networks          = ["private"]
    host_key_checking = false
    label "debian" {
      image  = diskimage.debian
      flavor = "small"
    }
  }
}
`

// dibPlace returns a place with that configuration. All mounts of a build must be gone before the directory is removed.
func dibPlace(t *testing.T) *place {
	t.Helper()
	at := emptyPlace(t)
	at.write(strings.NewReplacer("ELEMENTS", elementsPath(t), "ENV", dibEnvironment(t)).Replace(debian))
	t.Cleanup(func() { nothingMounted(t, at.dir) })
	return at
}

// nothingMounted fails the test if a build has left a mount, a loop device or a process.
func nothingMounted(t *testing.T, dir string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	testutil.Must(t, err)
	loops, err := exec.Command("losetup", "--all").Output()
	testutil.Must(t, err)
	processes, err := exec.Command("ps", "-e", "-o", "pid,args").Output()
	testutil.Must(t, err)
	for name, text := range map[string][]byte{"mounts": mounts, "loop devices": loops, "processes": processes} {
		if bytes.Contains(text, []byte(dir)) {
			t.Errorf("%s are left in %s:\n%s", name, dir, text)
		}
	}
}

// TestDibImageIsBuiltConvertedAndUploaded builds a Debian in one format, and converts it when a second cloud needs
// another.
func TestDibImageIsBuiltConvertedAndUploaded(t *testing.T) {
	at := dibPlace(t)
	at.mustRun(0, "apply", "-auto-approve").endsWith("Apply complete: 1 built, 1 uploaded, 1 launched, 0 deleted.")
	at.nothingToDo()
	raw := at.image("raw")

	_, box, _ := strings.Cut(debian, `provider "sandbox" "box"`)
	at.write(at.read() + `provider "sandbox" "other"` + strings.Replace(box, `"raw"`, `"qcow2"`, 1))
	at.mustRun(2, "plan", "-detailed-exitcode").contains("a provider needs another format", "1 to convert", "0 to build")
	at.mustRun(0, "apply", "-auto-approve").contains("1 converted", "1 uploaded")
	at.nothingToDo()
	compare(t, raw, at.image("qcow2"))

	logs, err := filepath.Glob(filepath.Join(at.dir, "logs/*"))
	if err != nil || len(logs) != 1 {
		t.Errorf("build logs are %q, %v; want one", logs, err)
	}
	at.mustRun(0, "destroy", "-auto-approve")
	if left, err := filepath.Glob(filepath.Join(at.dir, "images/*")); err != nil || len(left) > 0 {
		t.Errorf("image files are left: %q, %v", left, err)
	}
}

// image returns the path of the only image file of a format.
func (at *place) image(format string) string {
	at.t.Helper()
	files, err := filepath.Glob(filepath.Join(at.dir, "images/*."+format))
	if err != nil || len(files) != 1 {
		at.t.Fatalf("%s files are %q, %v; want one", format, files, err)
	}
	return files[0]
}

// compare checks the format and the content of the converted file with qemu-img.
func compare(t *testing.T, raw, converted string) {
	t.Helper()
	out, err := exec.Command("qemu-img", "info", "--output=json", converted).Output()
	var info struct {
		Format  string `json:"format"`
		Virtual int64  `json:"virtual-size"`
	}
	if err != nil || json.Unmarshal(out, &info) != nil || info.Format != "qcow2" || info.Virtual < 100<<20 {
		t.Errorf("qemu-img info: %s %v; want a qcow2 of a Debian's size", out, err)
	}
	if out, err := exec.Command("qemu-img", "compare", "-f", "raw", "-F", "qcow2", raw, converted).CombinedOutput(); err != nil {
		t.Errorf("qemu-img compare: %s %v", out, err)
	}
}

// TestDibBuildSurvivesAKill kills npctl without warning during a build. The next apply removes its remains.
func TestDibBuildSurvivesAKill(t *testing.T) {
	at := dibPlace(t)
	cmd, _, stderr := at.command(t.Context(), "apply", "-auto-approve")
	testutil.Must(t, cmd.Start())
	eventually(t, "the build has started to fill its tree", func() bool {
		logs, err := filepath.Glob(filepath.Join(at.dir, "logs/*"))
		if err != nil || len(logs) == 0 {
			return false
		}
		log, err := os.ReadFile(logs[0])
		return err == nil && bytes.Contains(log, []byte("root.d/10-debian-tiny"))
	})
	testutil.Must(t, cmd.Process.Kill())
	if err := cmd.Wait(); err == nil {
		t.Fatalf("npctl was to be killed and ended well\n%s", stderr)
	}
	killed := time.Now()
	at.mustRun(0, "apply", "-auto-approve").contains("1 built", "1 uploaded", "1 launched")
	t.Logf("applied %.0f s after the kill", time.Since(killed).Seconds())
	at.nothingToDo()
	at.image("raw")
	nothingMounted(t, at.dir)
	at.mustRun(0, "destroy", "-auto-approve")
	if left, err := filepath.Glob(filepath.Join(at.dir, "images/*")); err != nil || len(left) > 0 {
		t.Errorf("left in the images directory: %q, %v", left, err)
	}
}
