// Package ibmvpc manages nodes and images in IBM Cloud Virtual Private Clouds: instances, floating IPs and custom images
// through the VPC API, and the bucket for uploads through the S3 API of Cloud Object Storage.
//
// IBM's core library authenticates; the requests are this package's own, because IBM's library for VPC is one package of
// 7.5 MB (docs/decisions/0040-ibmvpc-without-the-vpc-library.md). The names of the objects carry the ownership (marks.go).
// The package translates and holds no policy: rate limits, retries and timeouts of calls are decorators of package drivers.
package ibmvpc

import (
	"context"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources/schema"
)

// Driver opens VPCs.
type Driver struct{}

var _ drivers.Driver = (*Driver)(nil)

// New returns the driver.
func New() *Driver { return &Driver{} }

// Kind implements drivers.Driver.
func (*Driver) Kind() string { return "ibmvpc" }

// Schema implements drivers.Driver.
func (*Driver) Schema() schema.Driver { return driverSchema() }

// Open implements drivers.Driver: it reads the configuration of IBM's libraries, and the VPC.
func (*Driver) Open(ctx context.Context, env drivers.Env, config cty.Value) (drivers.Cloud, error) {
	var settings providerSettings
	if err := cloudkit.Decode(config, &settings); err != nil {
		return nil, err
	}
	return open(ctx, env, settings)
}
