package drivers

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pagedFactor is how much longer a list may take than a single thing.
const pagedFactor = 10

// Timeout ends calls that take too long. Zero means the defaults: there is no way to have no timeout.
func Timeout(call, upload time.Duration) Around {
	if call <= 0 {
		call = DefaultTimeout
	}
	if upload <= 0 {
		upload = DefaultUploadTimeout
	}
	return func(ctx context.Context, c Call, next func(context.Context) error) error {
		limit := call
		switch c.Weight {
		case Paged:
			limit *= pagedFactor
		case Upload:
			limit = upload
		}
		late := &timeoutError{call: c, after: limit}
		ctx, cancel := context.WithTimeoutCause(ctx, limit, late)
		defer cancel()
		err := next(ctx)
		// Say so only when it was this timeout, not the caller's own.
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
