// Package gce manages nodes in Google Compute Engine through Google's client google.golang.org/api/compute/v1.
//
// The ownership labels (tags.go) distinguish npctl's objects from all others. The package translates and holds no policy:
// rate limits, retries and timeouts of calls are decorators of package drivers, and the client repeats no call.
package gce

import (
	"context"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources/schema"
)

// Driver opens regions of Google Cloud projects.
type Driver struct{}

var _ drivers.Driver = (*Driver)(nil)

// New returns the driver.
func New() *Driver { return &Driver{} }

// Kind implements drivers.Driver.
func (*Driver) Kind() string { return "gce" }

// Schema implements drivers.Driver.
func (*Driver) Schema() schema.Driver { return driverSchema() }

// Open implements drivers.Driver: it finds Google's application default credentials and reads the region with them.
func (*Driver) Open(ctx context.Context, env drivers.Env, config cty.Value) (drivers.Cloud, error) {
	var settings providerSettings
	if err := cloudkit.Decode(config, &settings); err != nil {
		return nil, err
	}
	return open(ctx, env, settings)
}
