package drivers

import (
	"context"
	"fmt"
	"math"

	"golang.org/x/time/rate"
)

// Limit lets through so many calls a second, in the order in which they come; 0 means no limit. As many may come at
// once as one second allows. Machines that are checked are asked themselves and not an API, so they do not count.
func Limit(perSecond float64) Around {
	if perSecond <= 0 {
		return func(ctx context.Context, _ Call, next func(context.Context) error) error { return next(ctx) }
	}
	limiter := rate.NewLimiter(rate.Limit(perSecond), int(max(1, math.Floor(perSecond))))
	return func(ctx context.Context, call Call, next func(context.Context) error) error {
		if call.Name == callCheck {
			return next(ctx)
		}
		if err := limiter.Wait(ctx); err != nil {
			return unsent{fmt.Errorf("%s: wait for the rate limit of %g calls a second: %w", call, perSecond, err)}
		}
		return next(ctx)
	}
}

// unsent is an error from before the call.
type unsent struct{ error }

func (u unsent) Unwrap() error   { return u.error }
func (unsent) NothingDone() bool { return true }
