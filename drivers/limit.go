package drivers

import (
	"context"
	"fmt"
	"math"

	"golang.org/x/time/rate"
)

// Limit permits perSecond calls per second, first come, first served, with bursts of one second's calls; 0 means no
// limit. Checks of static machines do not count, because they connect to the machine and not to an API.
func Limit(perSecond float64) Decorator {
	if perSecond <= 0 {
		return func(ctx context.Context, _ Call, next func(context.Context) error) error { return next(ctx) }
	}
	limiter := rate.NewLimiter(rate.Limit(perSecond), int(max(1, math.Floor(perSecond))))
	return func(ctx context.Context, call Call, next func(context.Context) error) error {
		if call.Name == callCheck {
			return next(ctx)
		}
		if err := limiter.Wait(ctx); err != nil {
			return unsentError{fmt.Errorf("%s: wait for the rate limit of %g calls a second: %w", call, perSecond, err)}
		}
		return next(ctx)
	}
}

// unsentError is an error that occurred before the call was made.
type unsentError struct{ error }

func (u unsentError) Unwrap() error   { return u.error }
func (unsentError) NothingDone() bool { return true }
