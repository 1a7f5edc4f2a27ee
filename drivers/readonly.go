package drivers

import (
	"context"
	"errors"
	"fmt"
)

// ErrReadOnly is the error of calls that ReadOnly blocks.
var ErrReadOnly = errors.New("read-only mode, the call was not made")

// ReadOnly permits only the calls that it knows to be read-only; an unknown call may change something.
func ReadOnly() Decorator {
	return func(ctx context.Context, call Call, next func(context.Context) error) error {
		switch call.Name {
		case "list", "quota", "list_images", "resolve_offer", "resolve_image", "leftovers":
			return next(ctx)
		default:
			return fmt.Errorf("%s: %w: %w", call, ErrRejected, ErrReadOnly)
		}
	}
}
