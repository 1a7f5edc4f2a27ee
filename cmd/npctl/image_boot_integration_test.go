//go:build integration

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/npctl/npctl/internal/mounts"
)

// dibDir is the directory of the elements and sessions for tests with the real diskimage-builder.
const dibDir = "../../test/dib"

// TestDibSessions runs the scripts in test/dib/sessions with the real diskimage-builder and QEMU. It needs root and a
// private /dev; test/dib/run.sh installs the dependencies and runs it.
func TestDibSessions(t *testing.T) { runDibSessions(t, "sessions", nil) }

// TestOpenStackSessions runs the scripts in test/dib/glance with a real OpenStack. test/openstack/run.sh runs it.
func TestOpenStackSessions(t *testing.T) {
	clouds := os.Getenv("OS_CLIENT_CONFIG_FILE")
	if clouds == "" {
		t.Fatal("OS_CLIENT_CONFIG_FILE is not set: run this through test/openstack/run.sh, or source env.sh of its work directory first")
	}
	runDibSessions(t, "glance", map[string]string{"OS_CLIENT_CONFIG_FILE": clouds, "OS_CLOUD": "npctl"})
}

func runDibSessions(t *testing.T, dir string, variables map[string]string) {
	t.Helper()
	if os.Getenv("OWN_DEV") != "inside" {
		t.Fatal("run this through builders/dib/testdata/own-dev.sh, so that the machine's /dev is out of reach")
	}
	if os.Getenv("DIB_DISTRIBUTION_MIRROR") == "" {
		t.Fatal(`DIB_DISTRIBUTION_MIRROR is not set: run this through test/dib/run.sh, or eval "$(test/dib/env.sh)" first`)
	}
	settings, err := dibLocals()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join(dibDir, dir),
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("PATH", env.Getenv("PATH")+":/usr/sbin:/sbin")
			for name, value := range variables {
				env.Setenv(name, value)
			}
			// The mounts of a build must be removed before the directory of the script is deleted.
			env.Defer(func() {
				if err := mounts.Clear(context.WithoutCancel(t.Context()), env.WorkDir); err != nil {
					t.Error(err)
				}
			})
			return os.WriteFile(filepath.Join(env.WorkDir, "dib.hcl"), []byte(settings), 0o600)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"sub": scriptSub, "images": scriptImages, "same": scriptSame, "holds": scriptHolds, "boots": scriptBoots, "clean": scriptClean,
		},
	})
}

// dibLocals returns the variables that test/dib/env.sh sets, as HCL.
func dibLocals() (string, error) {
	elements, err := filepath.Abs(filepath.Join(dibDir, "elements"))
	if err != nil {
		return "", err
	}
	// The second build of a run uses the cached Debian.
	pairs := []string{fmt.Sprintf("DIB_IMAGE_CACHE = %q", filepath.Join(os.TempDir(), "npctl-dib-cache"))}
	for _, line := range os.Environ() {
		name, value, _ := strings.Cut(line, "=")
		if strings.HasPrefix(name, "DIB_") && name != "DIB_RELEASE" && name != "DIB_IMAGE_CACHE" {
			pairs = append(pairs, fmt.Sprintf("%s = %q", name, value))
		}
	}
	return fmt.Sprintf("locals {\n  elements = %q\n  dib = {\n    %s\n  }\n}\n", elements, strings.Join(pairs, "\n    ")), nil
}

// scriptImages checks that there are images (images), or that the images directory is empty (! images).
func scriptImages(ts *testscript.TestScript, neg bool, _ []string) {
	files, err := filepath.Glob(ts.MkAbs("images/*"))
	ts.Check(err)
	if neg != (len(files) == 0) {
		ts.Fatalf("the images directory holds %q", files)
	}
}

// scriptImage returns the path of the only image file of a format.
func scriptImage(ts *testscript.TestScript, format string) string {
	files, err := filepath.Glob(ts.MkAbs("images/*." + format))
	ts.Check(err)
	if len(files) != 1 {
		ts.Fatalf("%s files are %q; want one", format, files)
	}
	return files[0]
}

// scriptSame checks with qemu-img that the image files of two formats have the same content: same raw qcow2.
func scriptSame(ts *testscript.TestScript, _ bool, args []string) {
	out, err := exec.Command("qemu-img", "compare", "-f", args[0], "-F", args[1], scriptImage(ts, args[0]), scriptImage(ts, args[1])).CombinedOutput()
	ts.Logf("%s", out)
	ts.Check(err)
}

// scriptHolds checks that an image in a sandbox has the SHA-256 of the image file: holds PROVIDER FORMAT.
func scriptHolds(ts *testscript.TestScript, _ bool, args []string) {
	file, err := os.Open(scriptImage(ts, args[1]))
	ts.Check(err)
	defer file.Close() //nolint:errcheck // read-only file
	sum := sha256.New()
	size, err := io.Copy(sum, file)
	ts.Check(err)
	stored := ts.ReadFile(filepath.Join(".npctl/providers", args[0], "sandbox.json"))
	if want := hex.EncodeToString(sum.Sum(nil)); !strings.Contains(stored, want) {
		ts.Fatalf("the sandbox of %s has no image with checksum %s, that of the %d bytes of %s", args[0], want, size, file.Name())
	}
}

// scriptClean checks that a build left no mount, loop device, process or temporary file.
func scriptClean(ts *testscript.TestScript, _ bool, _ []string) {
	points, err := mounts.Below(ts.MkAbs("."))
	ts.Check(err)
	loops, err := mounts.Loops(ts.MkAbs("."))
	ts.Check(err)
	processes, err := exec.Command("ps", "-e", "-o", "pid,args").Output()
	ts.Check(err)
	names, err := os.ReadDir(ts.MkAbs("images"))
	ts.Check(err)
	if len(points)+len(loops) > 0 || bytes.Contains(processes, []byte(ts.MkAbs("images"))) {
		ts.Fatalf("left behind: mounts %v, loop devices %v, or a process of\n%s", points, loops, processes)
	}
	for _, name := range names {
		if regexp.MustCompile(`\.(work|part)$`).MatchString(name.Name()) {
			ts.Fatalf("left behind: %s", name.Name())
		}
	}
}

// bootLimit is the timeout of the login prompt. Plain emulation takes 20 s on an idle core.
const bootLimit = 5 * time.Minute

// scriptBoots boots an image to its login prompt: boots FORMAT [FILE]. The image has no boot loader, so QEMU gets the
// kernel from the raw file of the build, which is read without mounting it. It uses plain emulation, because /dev/kvm
// may exist and hang.
func scriptBoots(ts *testscript.TestScript, _ bool, args []string) {
	kernel, initrd := scriptKernel(ts, scriptImage(ts, "raw"))
	var disk string
	if len(args) > 1 {
		disk = ts.MkAbs(args[1])
	} else {
		disk = scriptImage(ts, args[0])
	}
	format := args[0]
	if format == "vhd" {
		format = "vpc" // the name of the format in QEMU
	}
	ctx, cancel := context.WithTimeout(context.Background(), bootLimit)
	defer cancel()
	qemu := exec.CommandContext(ctx, "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", "1024", "-nodefaults", "-display", "none",
		"-no-reboot", "-snapshot", "-serial", "stdio", "-kernel", kernel, "-initrd", initrd, "-append", "root=LABEL=cloudimg-rootfs console=ttyS0 panic=-1",
		"-drive", "file="+disk+",if=virtio,format="+format)
	var said bytes.Buffer
	qemu.Stderr = &said
	console, err := qemu.StdoutPipe()
	ts.Check(err)
	began := time.Now()
	ts.Check(qemu.Start())
	greeted := waitForLogin(io.TeeReader(console, &said))
	took := time.Since(began)
	_ = qemu.Process.Kill() // there is no data to save
	_ = qemu.Wait()
	if !greeted {
		ts.Fatalf("no login prompt after %.0f s; the console ends with\n%s", took.Seconds(), said.Bytes()[max(0, said.Len()-4000):])
	}
	ts.Logf("%s: login prompt after %.1f s", args[0], took.Seconds())
}

// waitForLogin reads the console until the login prompt or the end. It reports whether the prompt appeared.
func waitForLogin(console io.Reader) bool {
	var text []byte
	for buf := make([]byte, 4096); ; {
		n, err := console.Read(buf)
		text = append(text, buf[:n]...)
		if bytes.Contains(text, []byte("Debian GNU/Linux")) && bytes.Contains(text, []byte(" login: ")) {
			return true
		}
		if err != nil {
			return false
		}
	}
}

// scriptKernel extracts the kernel and the initial RAM disk from an ext4 file system.
func scriptKernel(ts *testscript.TestScript, image string) (kernel, initrd string) {
	out, err := exec.Command("debugfs", "-R", "ls -p /boot", image).Output() // /inode/mode/user/group/name/size/
	ts.Check(err)
	for _, name := range strings.Split(string(out), "/") {
		to := filepath.Join(ts.MkAbs("."), name)
		switch {
		case strings.HasPrefix(name, "vmlinuz-"):
			kernel = to
		case strings.HasPrefix(name, "initrd.img-"):
			initrd = to
		default:
			continue
		}
		ts.Check(exec.Command("debugfs", "-R", "dump /boot/"+name+" "+to, image).Run())
	}
	if slices.Contains([]string{kernel, initrd}, "") {
		ts.Fatalf("the image has no kernel or no initial RAM disk:\n%s", out)
	}
	return kernel, initrd
}
