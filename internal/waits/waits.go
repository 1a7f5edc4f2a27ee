// Package waits pauses loops.
package waits

import (
	"context"
	"time"
)

// Sleep waits for d, or returns the cause of the end of ctx if it ends before.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
