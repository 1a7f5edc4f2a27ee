//go:build !linux

package sandboxssh

import (
	"context"
	"errors"
	"net"
)

// Listen needs what Linux does: every address of 127.0.0.0/8 is the machine's own, and a socket can be bound to the
// loopback interface. Elsewhere only 127.0.0.1 is there, which cannot tell one server from another.
func Listen(context.Context, int) (net.Listener, error) {
	return nil, errors.New("servers of the sandbox answer SSH on Linux only: other systems have 127.0.0.1 alone, not all of 127.0.0.0/8")
}
