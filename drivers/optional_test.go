package drivers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers"
)

func TestFailureOfAnOptionalCallIsOneWarning(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		hang  bool
		pause time.Duration
	}{
		"no permission": {err: fmt.Errorf("403: %w", drivers.ErrRejected), pause: drivers.CacheAge},
		"throttled":     {err: fmt.Errorf("429: %w", drivers.ErrThrottled), pause: 10 * time.Second},
		"broken":        {err: errors.New("500"), pause: 10 * time.Second},
		"hanging":       {hang: true, pause: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var optional drivers.Optional
				var log strings.Builder
				calls := 0
				do := func(ctx context.Context) error {
					return optional.Do(ctx, slog.New(slog.NewTextHandler(&log, nil)), "no quotas", func(ctx context.Context) error {
						calls++
						if c.hang {
							<-ctx.Done()
							return ctx.Err()
						}
						return c.err
					})
				}
				start := time.Now()
				if err := do(t.Context()); err != nil || time.Since(start) > 10*time.Second {
					t.Errorf("Do = %v after %s", err, time.Since(start))
				}
				time.Sleep(c.pause - time.Millisecond)
				if err := do(t.Context()); err != nil || calls != 1 {
					t.Errorf("Do = %v after %d calls, want none in the pause", err, calls)
				}
				time.Sleep(time.Second)
				if err := do(t.Context()); err != nil || calls != 2 {
					t.Errorf("Do = %v after %d calls, want a second one", err, calls)
				}
				if n := strings.Count(log.String(), "no quotas"); n != 1 {
					t.Errorf("%d warnings:\n%s", n, log.String())
				}
			})
		})
	}
}

func TestEndOfTheCallerIsNoWarning(t *testing.T) {
	var optional drivers.Optional
	ctx, cancel := context.WithCancel(t.Context())
	err := optional.Do(ctx, slog.New(slog.DiscardHandler), "no quotas", func(ctx context.Context) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Do = %v", err)
	}
	calls := 0
	if err := optional.Do(t.Context(), slog.New(slog.DiscardHandler), "no quotas", func(context.Context) error { calls++; return nil }); err != nil || calls != 1 {
		t.Errorf("Do = %v after %d calls", err, calls)
	}
}
