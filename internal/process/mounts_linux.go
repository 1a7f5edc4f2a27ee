package process

import (
	"os"
	"syscall"
)

// ownMounts asks for a process group and a mount namespace of its own, from which nothing gets out (Go makes it
// private). Only root may have one; it is nil for others.
func ownMounts() *syscall.SysProcAttr {
	if os.Geteuid() != 0 {
		return nil
	}
	return &syscall.SysProcAttr{Setpgid: true, Unshareflags: syscall.CLONE_NEWNS}
}
