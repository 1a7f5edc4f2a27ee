package external

import (
	"context"
	"errors"

	"github.com/npctl/npctl/drivers"
)

// accessor adds drivers.Accessor.
type accessor struct{ of *cloud }

var _ drivers.Accessor = accessor{}

// Access implements drivers.Accessor.
func (a accessor) Access(ctx context.Context, id string) (string, error) {
	var access string
	err := a.of.call(ctx, request{Call: callAccess, ID: id}, func(got response) error {
		if access = string(got.Access); access == "" {
			return errors.New(`access: the response has no "access"`)
		}
		return nil
	})
	return access, err
}
