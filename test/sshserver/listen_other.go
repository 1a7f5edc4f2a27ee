//go:build !linux

package sshserver

import (
	"context"
	"errors"
	"net"
)

// Listen needs Linux: there every address of 127.0.0.0/8 is local, and a socket can be bound to the loopback
// interface. Other systems have only 127.0.0.1, which cannot distinguish servers.
func Listen(context.Context, int) (net.Listener, error) {
	return nil, errors.New("servers of the emulator respond to SSH only on Linux; other systems have only 127.0.0.1, not all of 127.0.0.0/8")
}
