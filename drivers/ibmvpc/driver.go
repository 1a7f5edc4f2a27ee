// Package ibmvpc manages nodes and images in IBM Cloud Virtual Private Clouds: instances, floating IPs and custom images
// through the VPC API, and the bucket for uploads through the S3 API of Cloud Object Storage.
//
// IBM's core library authenticates; the requests are this package's own, because IBM's library for VPC is one package of
// 7.5 MB (docs/decisions/0040-ibmvpc-without-the-vpc-library.md). The names of the objects carry the ownership (marks.go).
// The package translates and holds no policy: rate limits, retries and timeouts of calls are decorators of package drivers.
package ibmvpc

import (
	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
)

// New returns the driver.
func New() drivers.Driver { return cloudkit.NewDriver("ibmvpc", driverSchema, open) }
