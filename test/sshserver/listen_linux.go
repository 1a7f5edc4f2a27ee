package sshserver

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Listen accepts the connections to a port of all addresses in 127.0.0.0/8, and none from outside: the socket is
// bound to the loopback interface. Since Linux 5.7 that needs no privilege. Port 0 means any free port.
func Listen(ctx context.Context, port int) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) { failed = unix.BindToDevice(int(fd), "lo") })
		if err != nil {
			return err
		}
		return failed
	}}
	listener, err := config.Listen(ctx, "tcp4", net.JoinHostPort("0.0.0.0", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("listen on port %d of the loopback interface: %w", port, err)
	}
	return listener, nil
}
