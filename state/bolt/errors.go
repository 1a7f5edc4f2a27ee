package bolt

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
)

// ErrDamaged reports damage to a file that was a valid state file.
var ErrDamaged = errors.New("the file is damaged")

var (
	errBusy      = errors.New("busy")
	errDirectory = errors.New("is a directory")
	errNotState  = errors.New("not an npctl state file")
	errNewer     = errors.New("newer schema")
	errReplaced  = errors.New("another state")
	errEmpty     = errors.New("the file is empty")
)

// damage returns an ErrDamaged with a description.
func damage(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// hints holds the next step for the user, by error.
var hints = []struct {
	err  error
	hint string
}{
	{ErrDamaged, "restore it from a backup, or move it away and run `npctl state push BACKUP.json`"},
	{errEmpty, "a full disk may be the cause: restore it from a backup, or remove it to start with an empty state"},
	{errNotState, "check the path of the state, or move the file away"},
	{errDirectory, "specify the path of a file in it, such as npctl.db"},
	{errBusy, "wait for it to finish, or stop the hanging process"},
	{syscall.ENOSPC, "the disk is full: free some space and try again, nothing was changed"},
	{syscall.EDQUOT, "the disk quota is used up: free some space and try again, nothing was changed"},
	{syscall.EFBIG, "the file size limit is too low (see `ulimit -f`): nothing was changed"},
	{syscall.EROFS, "the file system is mounted read-only: choose a path elsewhere"},
	{fs.ErrPermission, "run npctl as the user who owns the state, or change the owner of the file and its directory"},
	{fs.ErrNotExist, "the file existed when npctl started: restore it or restart npctl"},
	{syscall.EIO, "the disk has errors: check the kernel log, and restore the file from a backup if it is broken"},
}

// explain adds the next step for the user to an error.
func explain(err error) error {
	for _, h := range hints {
		if isCause(err, h.err) {
			return fmt.Errorf("%w: %s", err, h.hint)
		}
	}
	return err
}

// isCause reports whether cause is in the chain of err. It also compares texts, since bbolt formats some errors without
// wrapping them.
func isCause(err, cause error) bool {
	if errors.Is(err, cause) {
		return true
	}
	var errno syscall.Errno
	return errors.As(cause, &errno) && strings.HasSuffix(err.Error(), ": "+errno.Error())
}
