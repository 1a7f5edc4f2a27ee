//go:build unix

package qemu

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownSession starts QEMU in a session of its own, so that signals for npctl's terminal do not reach it.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// holderOf returns the ID of the process that has locked a pidfile, 0 if there is none.
func holderOf(pidfile string) (int, error) {
	file, err := os.OpenFile(pidfile, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer file.Close() //nolint:errcheck // only read
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	if err := unix.FcntlFlock(file.Fd(), unix.F_GETLK, &lock); err != nil {
		return 0, err
	}
	if lock.Type == unix.F_UNLCK || lock.Pid <= 0 {
		return 0, nil
	}
	return int(lock.Pid), nil
}

// killHolder kills the process that has locked a pidfile and reports whether there was one.
func killHolder(pidfile string) (bool, error) {
	pid, err := holderOf(pidfile)
	if err != nil || pid == 0 {
		return false, err
	}
	process, err := os.FindProcess(pid) // on Linux a handle, which stays that of this process
	if err != nil {
		return false, err
	}
	defer process.Release() //nolint:errcheck // no result
	if now, err := holderOf(pidfile); err != nil || now != pid {
		return false, err
	}
	if err := process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return false, err
	}
	return true, nil
}
