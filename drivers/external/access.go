package external

import (
	"context"
	"fmt"

	"github.com/npctl/npctl/drivers"
)

// accessor adds drivers.Accessor.
type accessor struct{ of *cloud }

var _ drivers.Accessor = accessor{}

// Access implements drivers.Accessor.
func (a accessor) Access(ctx context.Context, id string) (string, error) {
	got, err := a.of.call(ctx, request{Call: callAccess, ID: id})
	if err != nil {
		return "", err
	}
	if len(got.Access) == 0 {
		return "", fmt.Errorf(`access: the response has no "access"`)
	}
	return string(got.Access), nil
}
