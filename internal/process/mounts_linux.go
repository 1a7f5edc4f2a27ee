package process

import (
	"os"
	"syscall"
)

// ownMounts requests a process group and a private mount namespace. It returns nil for users other than root, which
// may not have one.
func ownMounts() *syscall.SysProcAttr {
	if os.Geteuid() != 0 {
		return nil
	}
	return &syscall.SysProcAttr{Setpgid: true, Unshareflags: syscall.CLONE_NEWNS}
}
