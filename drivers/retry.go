package drivers

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Pauses between tries: growing, with jitter so that many callers do not come back at the same moment.
const (
	firstPause = 500 * time.Millisecond
	maxPause   = 20 * time.Second
)

// Retry makes a call again after errors that may pass. It gives up at once on ErrRejected, ErrQuota, ErrCapacity and
// ErrNotSupported, when the caller's context is over, and where another try could make a second thing (see Repeat). A
// cloud that says when to come back is obeyed.
func Retry(attempts int, log *slog.Logger) Around {
	if attempts <= 0 {
		attempts = DefaultAttempts
	}
	return func(ctx context.Context, call Call, next func(context.Context) error) error {
		var last error
		try := func() (struct{}, error) {
			last = next(ctx)
			switch {
			case last == nil:
				return struct{}{}, nil
			case ctx.Err() != nil || !MayPass(last) || call.Repeat == RepeatIfNothingDone && !IsNothingDone(last):
				return struct{}{}, backoff.Permanent(last)
			case RetryAfterOf(last) > 0:
				return struct{}{}, &backoff.RetryAfterError{Duration: RetryAfterOf(last)}
			default:
				return struct{}{}, last
			}
		}
		_, err := backoff.Retry(ctx, try,
			backoff.WithBackOff(pauses()), backoff.WithMaxTries(uint(attempts)), backoff.WithMaxElapsedTime(0), //nolint:gosec // small and positive
			backoff.WithNotify(func(_ error, pause time.Duration) {
				log.LogAttrs(ctx, slog.LevelInfo, "cloud call failed, trying again",
					slog.String("call", call.String()), slog.Duration("pause", pause), slog.String("error", last.Error()))
			}))
		if err != nil {
			return last // what the cloud said, even when the context ended in a pause
		}
		return nil
	}
}

func pauses() backoff.BackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = firstPause, maxPause
	return b
}

// MayPass reports whether the same call may succeed later without anybody changing anything or giving room.
func MayPass(err error) bool {
	for _, final := range []error{ErrRejected, ErrQuota, ErrCapacity, ErrNotSupported} {
		if errors.Is(err, final) {
			return false
		}
	}
	return true
}

// RetryAfterOf is how long the cloud asked to be left alone; 0 when it did not.
func RetryAfterOf(err error) time.Duration {
	var known RetryAfter
	if errors.As(err, &known) {
		return known.RetryAfter()
	}
	return 0
}
