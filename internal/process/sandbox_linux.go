package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// systemPaths are the programs and libraries that every sandbox has, as far as they are there.
var systemPaths = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store", "/etc/ld.so.cache", "/etc/alternatives",
}

var sandboxDevices = []string{"/dev/null", "/dev/zero", "/dev/urandom"}

// inSandbox starts a program in a mount namespace of its own, in which a file system in memory with nothing but what s
// lists is the root. The directory that it returns is where that is mounted, there alone; remove it once the program has
// ended. Only root may have one: for others, and where mounting is forbidden, it returns errNoSandbox.
func inSandbox(program string, s Sandbox, start func(*syscall.SysProcAttr) error) (dir string, err error) {
	if os.Geteuid() != 0 {
		return "", errNoSandbox
	}
	if dir, err = os.MkdirTemp("", "npctl-sandbox-"); err != nil {
		return "", err
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for ever: the thread, which has other mounts than the rest of npctl, ends with the goroutine
		err := furnish(dir, program, s)
		if errors.Is(err, fs.ErrPermission) {
			err = fmt.Errorf("%w: %w", errNoSandbox, err)
		}
		if err == nil {
			err = start(&syscall.SysProcAttr{Setpgid: true, Chroot: dir})
		}
		done <- err
	}()
	if err = <-done; err != nil {
		_ = os.Remove(dir)
	}
	return dir, err
}

// furnish gives the thread mounts of its own, and makes the sandbox in dir.
func furnish(dir, program string, s Sandbox) error {
	err := unix.Unshare(unix.CLONE_NEWNS)
	if err == nil {
		err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	}
	if err == nil {
		err = unix.Mount("npctl-sandbox", dir, "tmpfs", unix.MS_NOSUID, "mode=755")
	}
	if err != nil {
		return fmt.Errorf("make a sandbox: %w", err)
	}
	for _, path := range systemPaths {
		if err := show(dir, path, unix.MS_RDONLY); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, path := range append([]string{program}, s.Read...) {
		if err := show(dir, path, unix.MS_RDONLY); err != nil {
			return err
		}
	}
	for _, path := range append(sandboxDevices[:len(sandboxDevices):len(sandboxDevices)], s.Write...) {
		if err := show(dir, path, 0); err != nil {
			return err
		}
	}
	return nil
}

// show makes a path of the system appear in the sandbox. Links at the root, such as /bin, stay links.
func show(dir, path string, flags uintptr) error {
	inside := filepath.Join(dir, path)
	if _, err := os.Lstat(inside); err == nil {
		return nil // a part of what is there already
	}
	if target, err := os.Readlink(path); err == nil && filepath.Dir(path) == "/" {
		return os.Symlink(target, inside)
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := makePoint(inside, info.IsDir()); err != nil {
		return err
	}
	if err := unix.Mount(path, inside, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("show %s to a sandbox: %w", path, err)
	}
	if flags == 0 {
		return nil
	}
	if err := unix.Mount("", inside, "", unix.MS_BIND|unix.MS_REMOUNT|flags, ""); err != nil {
		return fmt.Errorf("show %s to a sandbox: %w", path, err)
	}
	return nil
}

// makePoint makes what another file or directory is mounted on.
func makePoint(path string, dir bool) error {
	if dir {
		return os.MkdirAll(path, 0o755) //nolint:gosec // G301: it hides nothing
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // G301: it hides nothing
		return err
	}
	return os.WriteFile(path, nil, 0o600)
}
