//go:build !linux

package process

import "syscall"

// inSandbox is not supported.
func inSandbox(string, Sandbox, func(*syscall.SysProcAttr) error) (string, error) {
	return "", errNoSandbox
}
