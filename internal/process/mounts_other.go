//go:build !linux

package process

import "syscall"

// ownMounts returns nil: only Linux has mount namespaces.
func ownMounts() *syscall.SysProcAttr { return nil }
