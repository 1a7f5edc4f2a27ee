package sandbox

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/sandbox/sandboxcloud"
	"github.com/npctl/npctl/internal/sandboxssh"
)

// portPoll is the interval at which npctl checks whether a used port has become free.
const portPoll = time.Second

// serveSSH starts the SSH server of the cloud's servers on ssh_port and returns a function that stops it. An
// unavailable port is no error: another npctl on the same file serves it, or this one under an older configuration,
// with the same host keys, and only SSH needs the port. serveSSH takes over a used port when it becomes free.
func serveSSH(ctx context.Context, env drivers.Env, cloud *sandboxcloud.Cloud, port int) (stop func() error) {
	if port == 0 {
		return func() error { return nil }
	}
	log := env.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	listener, err := sandboxssh.Listen(ctx, port)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		log.Info("another process responds to SSH for the servers of the sandbox until the port is free", "error", err)
	case err != nil:
		log.Warn("this npctl does not respond to SSH for the servers of the sandbox", "error", err)
		return func() error { return nil }
	}
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() {
		if listener == nil {
			listener = awaitPort(serving, port)
		}
		if listener == nil {
			ended <- nil
			return
		}
		ended <- sandboxcloud.ServeSSH(serving, listener, cloud)
	}()
	return sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
}

// awaitPort listens when the port becomes free. It returns nil when ctx ends first.
func awaitPort(ctx context.Context, port int) net.Listener {
	for {
		select {
		case <-time.After(portPoll):
		case <-ctx.Done():
			return nil
		}
		if listener, err := sandboxssh.Listen(ctx, port); err == nil {
			return listener
		}
	}
}
