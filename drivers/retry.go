package drivers

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Backoff between attempts: exponential, with jitter so that many callers do not retry at the same moment.
const (
	initialBackoff = 500 * time.Millisecond
	maxBackoff     = 20 * time.Second
)

// RetryAfterLimit is the longest total time for which one call waits because the cloud asks for it with Retry-After.
const RetryAfterLimit = 2 * time.Minute

// Retry repeats a call after transient errors; attempts limits their total number. It does not repeat after
// ErrRejected, ErrQuota, ErrCapacity and ErrNotSupported, when the caller's context has ended, and where a repetition
// could create a second object (see retryPolicy). An error with RetryAfter counts as no attempt: the call waits for
// the requested time, up to RetryAfterLimit in total.
func Retry(attempts int, log *slog.Logger) Decorator {
	if attempts <= 0 {
		attempts = defaultAttempts
	}
	return func(ctx context.Context, call Call, next func(context.Context) error) error {
		growing, waited := newBackoff(), time.Duration(0)
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
			log.LogAttrs(ctx, slog.LevelInfo, "cloud call failed, retrying",
				slog.String("call", call.String()), slog.Duration("pause", pause), slog.String("error", err.Error()))
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return err // return the cloud's error, even when the context ended during the backoff
			}
		}
	}
}

// mayRepeat reports whether the call may be repeated after the error.
func mayRepeat(call Call, err error) bool {
	var late *timeoutError
	switch {
	case !IsTransient(err):
		return false
	case call.Retry == retryIfNothingDone:
		return IsNothingDone(err)
	case call.Retry == retryUnlessTimedOut:
		return !errors.As(err, &late)
	default:
		return true
	}
}

func newBackoff() backoff.BackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = initialBackoff, maxBackoff
	return b
}

// IsTransient reports whether the same call may succeed later while the configuration and the available capacity
// stay the same.
func IsTransient(err error) bool {
	for _, final := range []error{ErrRejected, ErrQuota, ErrCapacity, ErrNotSupported} {
		if errors.Is(err, final) {
			return false
		}
	}
	return true
}

// RetryAfterOf returns the time that the cloud asked to wait, or 0.
func RetryAfterOf(err error) time.Duration {
	var known RetryAfter
	if errors.As(err, &known) {
		return known.RetryAfter()
	}
	return 0
}
