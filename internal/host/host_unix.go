//go:build unix

package host

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

// ReplaceFile writes a file with exactly these permissions and replaces an existing one atomically.
func ReplaceFile(path string, content []byte, perm os.FileMode) error {
	return replace(path, content, renameio.WithStaticPermissions(perm))
}

// ReplaceReadableFile is ReplaceFile with permissions for all users, as far as the umask permits.
func ReplaceReadableFile(path string, content []byte) error {
	return replace(path, content, renameio.WithPermissions(0o644))
}

func replace(path string, content []byte, perm renameio.Option) error {
	pending, err := renameio.NewPendingFile(path, perm, renameio.WithTempDir(filepath.Dir(path)))
	if err != nil {
		return err
	}
	defer pending.Cleanup() //nolint:errcheck // after success there is nothing to clean up
	if _, err := pending.Write(content); err != nil {
		return err
	}
	return pending.CloseAtomicallyReplace()
}

// SyncDir makes new entries of a directory survive a power failure.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// SyncFile makes the content of a closed file survive a power failure.
func SyncFile(path string) error { return SyncDir(path) }

// Signal returns the signal with a name such as KILL. An unknown name counts as KILL.
func Signal(name string) syscall.Signal {
	if number := unix.SignalNum("SIG" + name); number != 0 {
		return number
	}
	return unix.SIGKILL
}

// Monotonic returns the time of CLOCK_MONOTONIC, and false if the system has no such clock.
func Monotonic() (time.Duration, bool) {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return time.Duration(now.Nano()), err == nil
}

// ThreadTime returns the clock of the CPU time of the calling thread, or nil if the system does not measure it.
func ThreadTime() func() time.Duration {
	read := func() (time.Duration, error) {
		var used unix.Timespec
		err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used)
		return time.Duration(used.Nano()), err
	}
	if _, err := read(); err != nil {
		return nil
	}
	return func() time.Duration { used, _ := read(); return used }
}

// IsRunning reports whether a process exists, possibly of another user.
func IsRunning(pid int) bool { return !errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

// TryLock acquires a lock on an open file and returns whether it did. The lock ends with the file, or with Unlock.
func TryLock(file *os.File, exclusive bool) (bool, error) {
	how := unix.LOCK_SH
	if exclusive {
		how = unix.LOCK_EX
	}
	err := unix.Flock(int(file.Fd()), how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return err == nil, err
}

// Unlock releases the lock of TryLock. A second call, or one on a closed file, has no effect.
func Unlock(file *os.File) {
	if raw, err := file.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.Flock(int(fd), unix.LOCK_UN) })
	}
}
