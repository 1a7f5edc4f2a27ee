// Package azure manages nodes and images in Microsoft Azure: virtual machines and managed images through azure-sdk-for-go.
//
// The ownership tags (tags.go) distinguish npctl's objects from all others. The package translates and holds no policy:
// rate limits, retries and timeouts of calls are decorators of package drivers, so the retries of the SDK are off.
package azure

import (
	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
)

// New returns the driver.
func New() drivers.Driver { return cloudkit.NewDriver("azure", driverSchema, open) }
