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

// RetryAfterLimit is the longest total time for which one call waits because the cloud asks for it with Retry-After.
const RetryAfterLimit = 2 * time.Minute

// Retry repeats a call after transient errors, at most attempts times in all. It does not repeat after ErrRejected,
// ErrQuota, ErrCapacity and ErrNotSupported, when the caller's context has ended, and where a repetition could create a
// second object (see Repeat). A refusal with Retry-After counts as no attempt: the call waits as long as the cloud asks,
// up to RetryAfterLimit in all.
func Retry(attempts int, log *slog.Logger) Around {
	if attempts <= 0 {
		attempts = DefaultAttempts
	}
	return func(ctx context.Context, call Call, next func(context.Context) error) error {
		growing, waited := pauses(), time.Duration(0)
		for attempt := 1; ; {
			err := next(ctx)
			if err == nil || ctx.Err() != nil || !mayRepeat(call, err) {
				return err
			}
			pause := RetryAfterOf(err)
			if pause > 0 {
				waited += pause
			} else {
				attempt++
				pause = growing.NextBackOff()
			}
			if attempt > attempts || waited > RetryAfterLimit {
				return err
			}
			log.LogAttrs(ctx, slog.LevelInfo, "cloud call failed, trying again",
				slog.String("call", call.String()), slog.Duration("pause", pause), slog.String("error", err.Error()))
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return err // what the cloud said, even when the context ended in a pause
			}
		}
	}
}

// mayRepeat reports whether the call may be repeated after the error.
func mayRepeat(call Call, err error) bool {
	var late *timeoutError
	switch {
	case !MayPass(err):
		return false
	case call.Repeat == RepeatIfNothingDone:
		return IsNothingDone(err)
	case call.Repeat == RepeatUnlessLate:
		return !errors.As(err, &late)
	default:
		return true
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
