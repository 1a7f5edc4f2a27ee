// Package azure manages nodes and images in Microsoft Azure: virtual machines and managed images through azure-sdk-for-go.
//
// The ownership tags (tags.go) distinguish npctl's objects from all others. The package translates and holds no policy:
// rate limits, retries and timeouts of calls are decorators of package drivers, so the retries of the SDK are off.
package azure

import (
	"context"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources/schema"
)

// Driver opens resource groups of Azure subscriptions.
type Driver struct{}

var _ drivers.Driver = (*Driver)(nil)

// New returns the driver.
func New() *Driver { return &Driver{} }

// Kind implements drivers.Driver.
func (*Driver) Kind() string { return "azure" }

// Schema implements drivers.Driver.
func (*Driver) Schema() schema.Driver { return driverSchema() }

// Open implements drivers.Driver: it finds credentials as every Azure tool does and reads the resource group.
func (*Driver) Open(ctx context.Context, env drivers.Env, config cty.Value) (drivers.Cloud, error) {
	var settings providerSettings
	if err := cloudkit.Decode(config, &settings); err != nil {
		return nil, err
	}
	return open(ctx, env, settings)
}
