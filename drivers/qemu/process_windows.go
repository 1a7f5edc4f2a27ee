package qemu

import (
	"errors"
	"syscall"
)

// Open rejects Windows, so these functions are not called.

func ownSession() *syscall.SysProcAttr { return nil }

func holderOf(string) (int, error) { return 0, errors.ErrUnsupported }

func killHolder(string) (bool, error) { return false, errors.ErrUnsupported }
