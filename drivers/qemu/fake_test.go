package qemu

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/npctl/npctl/internal/testutil"
)

// The test binary is also a QEMU and a qemu-img without machines: it does what the driver relies on, which is the files, the
// locks, the forwarded port and a life after npctl.
const (
	fakeQEMU    = "qemu-system-x86_64"
	fakeQemuImg = "qemu-img"
	fakeChild   = "fake-qemu-child"

	secretVariable = "OS_PASSWORD"      // which no program may inherit
	noSandbox      = "-fake-no-sandbox" // argument for a QEMU without seccomp
)

func TestMain(m *testing.M) {
	if _, inherited := os.LookupEnv(secretVariable); inherited && strings.HasPrefix(filepath.Base(os.Args[0]), "qemu-") {
		os.Exit(exitCode(errors.New("a program inherits " + secretVariable)))
	}
	switch filepath.Base(os.Args[0]) {
	case fakeQEMU:
		os.Exit(exitCode(daemonize(os.Args[1:])))
	case fakeChild:
		os.Exit(exitCode(runMachine(os.Args[1:])))
	case fakeQemuImg:
		os.Exit(exitCode(createDisk(os.Args[1:])))
	}
	flag.Parse()
	os.Exit(m.Run())
}

func exitCode(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// fakePrograms returns the paths of the programs.
func fakePrograms(t *testing.T) (qemu, qemuImg string) {
	t.Helper()
	self, err := os.Executable()
	testutil.Must(t, err)
	dir := t.TempDir()
	for _, name := range []string{fakeQEMU, fakeQemuImg} {
		testutil.Must(t, os.Symlink(self, filepath.Join(dir, name)))
	}
	return filepath.Join(dir, fakeQEMU), filepath.Join(dir, fakeQemuImg)
}

// createDisk is qemu-img create.
func createDisk(args []string) error {
	i := slices.IndexFunc(args, func(a string) bool { return filepath.Base(a) == fileDisk })
	if i < 0 || args[0] != "create" {
		return fmt.Errorf("unexpected arguments %q", args)
	}
	return os.WriteFile(args[i], []byte("QFI\xfb"), 0o600)
}

// value returns the value after an argument, or the part of it that matches.
func value(args []string, name, part string) string {
	for i, a := range args[:len(args)-1] {
		if a == name {
			if found := regexp.MustCompile(part).FindStringSubmatch(args[i+1]); found != nil {
				return found[1]
			}
		}
	}
	return ""
}

// daemonize starts the machine and ends when it runs.
func daemonize(args []string) error {
	for _, a := range args {
		if a == "-unknown" {
			return fmt.Errorf("%s: invalid option", a)
		}
	}
	if slices.Contains(args, noSandbox) && slices.Contains(args, sandboxOption) {
		return errors.New("-sandbox support is not enabled in this QEMU binary")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	in, out, err := os.Pipe()
	if err != nil {
		return err
	}
	child := &exec.Cmd{Path: self, Args: append([]string{fakeChild}, args...), Stderr: os.Stderr, ExtraFiles: []*os.File{os.NewFile(3, "lock"), out}}
	if err := child.Start(); err != nil {
		return err
	}
	_ = out.Close()
	if text, _ := io.ReadAll(in); string(text) != "ready" {
		return fmt.Errorf("the machine did not start: %w", child.Wait())
	}
	return nil
}

// fakeLife ends a machine that a failed test has left behind.
const fakeLife = 5 * time.Minute

// runMachine listens at the forwarded port until it is killed.
func runMachine(args []string) error {
	console := value(args, "-chardev", "path=(.*)")
	if err := os.WriteFile(strings.ReplaceAll(console, ",,", ","), []byte("fake machine\n"), 0o600); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", value(args, "-netdev", "hostfwd=tcp:(.*)-:"))
	if err != nil {
		return fmt.Errorf("-netdev: Could not set up host forwarding rule: %w", err)
	}
	pidfile, err := os.OpenFile(value(args, "-pidfile", "(.*)"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := unix.FcntlFlock(pidfile.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}); err != nil {
		return err
	}
	ready := os.NewFile(4, "ready")
	if _, err := ready.WriteString("ready"); err != nil {
		return err
	}
	_ = ready.Close()
	time.Sleep(fakeLife)
	return listener.Close()
}
