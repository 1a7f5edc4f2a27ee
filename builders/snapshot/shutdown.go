package snapshot

import (
	"context"
	"fmt"
	"time"

	"github.com/npctl/npctl/internal/process"
)

// downLimit limits the time for the shutdown of the instance. If the instance does not shut down in time, npctl makes
// the snapshot anyway.
const downLimit = time.Minute

// shutDown shuts the instance down and waits until the connection ends, so that no file in the image is half written.
func (b *build) shutDown(ctx context.Context, c *connection) {
	if !b.Shutdown || b.ShutdownCommand == "" {
		return
	}
	b.report("shutting the instance down", 0, 0)
	b.logf("shutting the instance down")
	ctx, cancel := context.WithTimeoutCause(ctx, downLimit, fmt.Errorf("not done after %s", downLimit))
	defer cancel()
	transcript := process.NewTranscript(process.Spec{Log: b.log, LogLimit: 64 << 10, Secrets: b.secrets})
	end, err := c.run(ctx, "exec /bin/sh -c "+quote(b.ShutdownCommand), nil, transcript)
	if err == nil && end.code != 0 {
		b.logf("shutdown_command ended with exit code %d; the snapshot is taken while the instance runs", end.code)
		return
	}
	select {
	case <-c.gone:
		b.logf("the instance has closed the connection")
	case <-ctx.Done():
		b.logf("the instance still runs after %s; the snapshot is taken anyway", downLimit)
	}
}
