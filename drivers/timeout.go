package drivers

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pagedFactor is the ratio of the timeouts of lists and of single objects.
const pagedFactor = 10

// Timeout limits the duration of calls. Zero means the default; the timeout cannot be disabled.
func Timeout(call, upload time.Duration) Decorator {
	if call <= 0 {
		call = DefaultTimeout
	}
	if upload <= 0 {
		upload = DefaultUploadTimeout
	}
	return func(ctx context.Context, c Call, next func(context.Context) error) error {
		limit := call
		switch c.Weight {
		case paged:
			limit *= pagedFactor
		case wholeImage:
			limit = upload
		}
		late := &timeoutError{call: c, after: limit}
		ctx, cancel := context.WithTimeoutCause(ctx, limit, late)
		defer cancel()
		err := next(ctx)
		// Return the timeout error only if this timeout expired, not the caller's deadline.
		if err != nil && errors.Is(context.Cause(ctx), late) && errors.Is(err, context.DeadlineExceeded) {
			return late
		}
		return err
	}
}

type timeoutError struct {
	call  Call
	after time.Duration
}

func (e *timeoutError) Error() string {
	return fmt.Sprintf("%s: no answer within %s", e.call, e.after)
}

func (e *timeoutError) Unwrap() []error { return []error{context.DeadlineExceeded, ErrUnavailable} }
