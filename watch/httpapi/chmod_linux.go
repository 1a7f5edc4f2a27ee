package httpapi

import "golang.org/x/sys/unix"

// chmodUnbound sets the mode of a socket before bind creates its file.
func chmodUnbound(fd int, mode uint32) error { return unix.Fchmod(fd, mode) }
