package drivers

import (
	"context"
	"errors"
	"fmt"
)

// ErrLookingOnly is why a call was not made that could have changed something; see LookOnly.
var ErrLookingOnly = errors.New("whoever only looks on changes nothing")

// LookOnly lets those calls through that look, and no other: a call that it has not heard of may change something.
func LookOnly() Around {
	return func(ctx context.Context, call Call, next func(context.Context) error) error {
		switch call.Name {
		case "list", "quota", "list_images", "resolve_offer", "resolve_image", "leftovers":
			return next(ctx)
		default:
			return fmt.Errorf("%s: %w: %w", call, ErrRejected, ErrLookingOnly)
		}
	}
}
