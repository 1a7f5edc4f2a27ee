// Package aws manages nodes and images in Amazon Web Services: EC2 instances, EBS snapshots and AMIs through aws-sdk-go-v2.
//
// The ownership tags (tags.go) distinguish npctl's objects from all others. The package translates and holds no policy:
// rate limits, retries and timeouts of calls are decorators of package drivers, so the retries of the SDK are off.
package aws

import (
	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
)

// New returns the driver.
func New() drivers.Driver { return cloudkit.NewDriver("aws", driverSchema, open) }
