package httpapi

import "golang.org/x/sys/unix"

// chmodUnbound sets the mode that a socket's file will be made with.
func chmodUnbound(fd int, mode uint32) error { return unix.Fchmod(fd, mode) }
