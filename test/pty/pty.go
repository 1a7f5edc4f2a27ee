//go:build linux

// Package pty opens terminals for tests.
package pty

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/npctl/npctl/internal/testutil"
)

// Open opens a terminal of the given size. Writes to keys are input, and reads from keys return the output. The caller
// closes screen after a process has started with it.
func Open(t *testing.T, rows, columns uint16) (keys, screen *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	testutil.Must(t, err)
	t.Cleanup(func() { _ = keys.Close() })
	fd := int(keys.Fd())
	testutil.Must(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	testutil.Must(t, err)
	testutil.Must(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}))
	screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	testutil.Must(t, err)
	mode, err := unix.IoctlGetTermios(int(screen.Fd()), unix.TCGETS)
	testutil.Must(t, err)
	mode.Lflag |= unix.NOFLSH // ^C discards no output that the test has not read yet
	testutil.Must(t, unix.IoctlSetTermios(int(screen.Fd()), unix.TCSETS, mode))
	return keys, screen
}
