//go:build unix

package process

import (
	"os"
	"path/filepath"
	"syscall"
)

// ownGroup starts the leader in a process group of its own.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// terminate asks the leader to end.
func terminate(leader int) { _ = syscall.Kill(leader, syscall.SIGTERM) }

// killGroup kills the leader's group.
func killGroup(leader int) { _ = syscall.Kill(-leader, syscall.SIGKILL) }

// platformVariables are further variables that builders inherit on this system.
var platformVariables []string

// systemPath is the PATH without one in the environment.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// isPath reports whether the name of a program is a path.
func isPath(name string) bool { return filepath.Base(name) != name }

// isExecutable reports whether a file may be executed.
func isExecutable(info os.FileInfo) bool { return info.Mode()&0o111 != 0 }

// fileNames returns the names of the files that a name of a program stands for.
func fileNames(name string) []string { return []string{name} }
