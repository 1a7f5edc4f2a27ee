//go:build !linux

package process

import "syscall"

// ownMounts is nil: mount namespaces are Linux's.
func ownMounts() *syscall.SysProcAttr { return nil }
