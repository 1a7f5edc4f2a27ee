// Package openstack manages nodes and images in OpenStack clouds: Nova, Glance, Neutron and Cinder through gophercloud.
//
// The ownership tags (marks.go) distinguish npctl's objects from all others. The package translates and holds no policy:
// rate limits, retries and timeouts of calls are decorators of package drivers. Lists are decoded into small types of
// this package, since projects hold thousands of servers of which a dozen fields matter.
package openstack

import (
	"context"
	"net/http"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources/schema"
)

// Driver opens OpenStack clouds.
type Driver struct{}

var _ drivers.Driver = (*Driver)(nil)

// New returns the driver.
func New() *Driver { return &Driver{} }

// Kind implements drivers.Driver.
func (*Driver) Kind() string { return "openstack" }

// Schema implements drivers.Driver.
func (*Driver) Schema() schema.Driver {
	s := SharedSchema()
	s.Provider = schema.Of[providerSettings]("", nil)
	s.Nodepool.Provider = append(nodepoolLocation(), s.Nodepool.Provider...)
	return s
}

// Open implements drivers.Driver: it reads clouds.yaml like other OpenStack tools and requests a token.
func (*Driver) Open(ctx context.Context, env drivers.Env, config cty.Value) (drivers.Cloud, error) {
	var settings providerSettings
	if err := cloudkit.Decode(config, &settings); err != nil {
		return nil, err
	}
	entry, err := loadCloud(settings.Cloud, settings.Region, systemSurroundings())
	if err != nil {
		return nil, err
	}
	return open(ctx, env, entry, settings.Shared)
}

// Endpoint is the access to a cloud, for callers that know it.
type Endpoint struct {
	AuthURL, Region, Username, Password, Project, Domain string
	// Transport sends the calls; nil means the network.
	Transport http.RoundTripper
	// CloudName is the cloud name of instances.
	CloudName string
	// Closed, if not nil, is called by Close of the Cloud.
	Closed func() error
}

// Connect opens the cloud at the endpoint. The config is a value of SharedSchema().Provider; null, or a missing
// attribute, means the defaults.
func Connect(ctx context.Context, env drivers.Env, endpoint Endpoint, config cty.Value) (drivers.Cloud, error) {
	var settings sharedSettings
	if err := cloudkit.Decode(config, &settings); err != nil {
		return nil, err
	}
	entry, err := endpointEntry(endpoint)
	if err != nil {
		return nil, err
	}
	return open(ctx, env, entry, settings)
}
