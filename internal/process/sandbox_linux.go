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

// systemPaths are the programs and libraries in every sandbox, if they exist.
var systemPaths = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store", "/etc/ld.so.cache", "/etc/alternatives",
}

var sandboxDevices = []string{"/dev/null", "/dev/zero", "/dev/urandom"}

// inSandbox starts a program in its own mount namespace. The root is an in-memory file system that contains only the
// files in s. It is mounted on the returned directory, only in that namespace; remove the directory after the program
// has ended. For users other than root, and where mounting is forbidden, inSandbox returns errNoSandbox.
func inSandbox(program string, s Sandbox, start func(*syscall.SysProcAttr) error) (dir string, err error) {
	if os.Geteuid() != 0 {
		return "", errNoSandbox
	}
	if dir, err = os.MkdirTemp("", "npctl-sandbox-"); err != nil {
		return "", err
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // permanently: the thread has other mounts than npctl and ends with the goroutine
		err := mountSandbox(dir, program, s)
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

// mountSandbox moves the thread to a new mount namespace and creates the sandbox in dir.
func mountSandbox(dir, program string, s Sandbox) error {
	err := unix.Unshare(unix.CLONE_NEWNS)
	if err == nil {
		err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	}
	if err == nil {
		err = unix.Mount("npctl-sandbox", dir, "tmpfs", unix.MS_NOSUID, "mode=755")
	}
	if err != nil {
		return fmt.Errorf("create sandbox: %w", err)
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

// show makes a system path available in the sandbox. Links at the root, such as /bin, remain links.
func show(dir, path string, flags uintptr) error {
	inside := filepath.Join(dir, path)
	if _, err := os.Lstat(inside); err == nil {
		return nil // part of an earlier mount
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
		return fmt.Errorf("mount %s in a sandbox: %w", path, err)
	}
	if flags == 0 {
		return nil
	}
	if err := unix.Mount("", inside, "", unix.MS_BIND|unix.MS_REMOUNT|flags, ""); err != nil {
		return fmt.Errorf("mount %s in a sandbox: %w", path, err)
	}
	return nil
}

// makePoint creates the mount point for a file or directory.
func makePoint(path string, dir bool) error {
	if dir {
		return os.MkdirAll(path, 0o755) //nolint:gosec // G301: the directory is not secret
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // G301: the directory is not secret
		return err
	}
	return os.WriteFile(path, nil, 0o600)
}
