package snapshot

import (
	"context"
	"fmt"
	"time"

	"github.com/npctl/npctl/internal/process"
)

// downLimit is how long a machine may take to go down once it was asked to. A snapshot of one that stays up is made all
// the same.
const downLimit = time.Minute

// shutDown asks the machine to go down, so that nothing is half written in the image, and waits until it hangs up.
func (b *build) shutDown(ctx context.Context, c *connection) {
	if b.shutdown == "" {
		return
	}
	b.tell("shutting the machine down", 0, 0)
	b.say("shuts the machine down")
	ctx, cancel := context.WithTimeoutCause(ctx, downLimit, fmt.Errorf("not done after %s", downLimit))
	defer cancel()
	transcript := process.NewTranscript(process.Spec{Log: b.log, LogLimit: 64 << 10, Secrets: b.secrets})
	end, err := c.run(ctx, "exec /bin/sh -c "+quote(b.shutdown), nil, transcript)
	if err == nil && end.code != 0 {
		b.say("shutdown_command ended with exit code %d; the snapshot is made of a machine that runs", end.code)
		return
	}
	select {
	case <-c.gone:
		b.say("the machine has hung up")
	case <-ctx.Done():
		b.say("the machine is still there after %s; the snapshot is made all the same", downLimit)
	}
}
