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
	if b.shutdown == "" {
		return
	}
	b.report("shutting the machine down", 0, 0)
	b.logf("shuts the machine down")
	ctx, cancel := context.WithTimeoutCause(ctx, downLimit, fmt.Errorf("not done after %s", downLimit))
	defer cancel()
	transcript := process.NewTranscript(process.Spec{Log: b.log, LogLimit: 64 << 10, Secrets: b.secrets})
	end, err := c.run(ctx, "exec /bin/sh -c "+quote(b.shutdown), nil, transcript)
	if err == nil && end.code != 0 {
		b.logf("shutdown_command ended with exit code %d; the snapshot is made of a machine that runs", end.code)
		return
	}
	select {
	case <-c.gone:
		b.logf("the machine has hung up")
	case <-ctx.Done():
		b.logf("the machine is still there after %s; the snapshot is made all the same", downLimit)
	}
}
