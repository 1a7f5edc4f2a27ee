package host

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

// ReplaceFile writes a file and replaces an existing one. Windows has no such permissions: the file inherits the access
// list of its directory.
func ReplaceFile(path string, content []byte, _ os.FileMode) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}

// ReplaceReadableFile is ReplaceFile.
func ReplaceReadableFile(path string, content []byte) error { return ReplaceFile(path, content, 0) }

// SyncDir does nothing: Windows syncs no directory.
func SyncDir(string) error { return nil }

// SyncFile makes the content of a closed file survive a power failure.
func SyncFile(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0) // a file that is open for reading cannot be synced
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// Signal returns the signal with a name such as KILL. Windows knows no names of signals.
func Signal(string) syscall.Signal { return syscall.SIGKILL }

// Monotonic returns false: only systemd needs this clock.
func Monotonic() (time.Duration, bool) { return 0, false }

// stillActive is the exit code of a running process.
const stillActive = 259

// ThreadTime returns nil: the system's clock of a thread is too coarse.
func ThreadTime() func() time.Duration { return nil }

// IsRunning reports whether a process exists, possibly of another user.
func IsRunning(pid int) bool {
	process, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if err != nil {
		return errors.Is(err, windows.ERROR_ACCESS_DENIED)
	}
	defer windows.CloseHandle(process) //nolint:errcheck // only read
	var code uint32
	return windows.GetExitCodeProcess(process, &code) == nil && code == stillActive
}

// lockedByte is the position of the byte that TryLock locks. It is beyond the end of every file, and differs from the one
// that bbolt locks.
const lockedByte = 1<<32 - 2

func lockedRange() *windows.Overlapped {
	return &windows.Overlapped{Offset: lockedByte, OffsetHigh: 1 << 30}
}

// TryLock acquires a lock on an open file and returns whether it did. The lock ends with the file, or with Unlock.
func TryLock(file *os.File, exclusive bool) (bool, error) {
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if exclusive {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err := windows.LockFileEx(windows.Handle(file.Fd()), flags, 0, 1, 0, lockedRange())
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}

// Unlock releases the lock of TryLock. A second call, or one on a closed file, has no effect.
func Unlock(file *os.File) {
	if raw, err := file.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = windows.UnlockFileEx(windows.Handle(fd), 0, 1, 0, lockedRange()) })
	}
}
