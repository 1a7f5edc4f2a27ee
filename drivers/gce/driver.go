// Package gce manages nodes in Google Compute Engine through Google's client google.golang.org/api/compute/v1.
//
// The ownership labels (tags.go) distinguish npctl's objects from all others. The package translates and holds no policy:
// rate limits, retries and timeouts of calls are decorators of package drivers, and the client repeats no call.
package gce

import (
	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
)

// New returns the driver.
func New() drivers.Driver { return cloudkit.NewDriver("gce", driverSchema, open) }
