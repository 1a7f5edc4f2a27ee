// Package aws manages nodes and images in Amazon Web Services: EC2 instances, EBS snapshots and AMIs through aws-sdk-go-v2.
//
// The ownership tags (tags.go) distinguish npctl's objects from all others. The package translates and holds no policy:
// rate limits, retries and timeouts of calls are decorators of package drivers, so the retries of the SDK are off.
package aws

import (
	"context"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources/schema"
)

// Driver opens regions of AWS accounts.
type Driver struct{}

var _ drivers.Driver = (*Driver)(nil)

// New returns the driver.
func New() *Driver { return &Driver{} }

// Kind implements drivers.Driver.
func (*Driver) Kind() string { return "aws" }

// Schema implements drivers.Driver.
func (*Driver) Schema() schema.Driver { return driverSchema() }

// Open implements drivers.Driver: it reads the configuration files and variables of the AWS tools and asks STS for the
// account of the credentials.
func (*Driver) Open(ctx context.Context, env drivers.Env, config cty.Value) (drivers.Cloud, error) {
	var settings providerSettings
	if err := cloudkit.Decode(config, &settings); err != nil {
		return nil, err
	}
	return open(ctx, env, settings)
}
