package sandbox

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/sandboxcloud"
	"github.com/npctl/npctl/internal/sandboxssh"
)

// serveSSH lets the servers answer on ssh_port, and returns how to end that. A port that cannot be had is no error:
// another npctl on the same file answers there, with the same host keys, and nothing but SSH needs it.
func serveSSH(ctx context.Context, env drivers.Env, cloud *sandboxcloud.Cloud, config cty.Value) (stop func() error) {
	r := reader{}
	port := r.number(config, "ssh_port", 0)
	if port == 0 {
		return func() error { return nil }
	}
	log := env.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	listener, err := sandboxssh.Listen(ctx, int(port))
	if err = errors.Join(r.err, err); err != nil {
		log.Warn("this npctl answers no SSH for the servers of the sandbox", "provider", env.Provider, "error", err)
		return func() error { return nil }
	}
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- sandboxcloud.ServeSSH(serving, listener, cloud) }()
	return sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
}
