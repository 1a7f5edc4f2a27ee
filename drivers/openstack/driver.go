// Package openstack makes nodes and keeps images in OpenStack clouds: Nova, Glance, Neutron and Cinder through
// gophercloud.
//
// What npctl makes is told from everything else by its marks (marks.go). The package translates and holds no policy:
// rate limits, retries and timeouts of calls are decorators of package drivers. Lists are decoded into small types of
// this package, since projects hold thousands of servers of which a dozen fields matter.
package openstack

import (
	"context"
	"net/http"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
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
	s.Doc = driverDoc
	s.Provider.Attributes = append(cloudAttributes(), s.Provider.Attributes...)
	return s
}

// Open implements drivers.Driver: it reads clouds.yaml as every OpenStack tool does and asks for a token.
func (*Driver) Open(ctx context.Context, env drivers.Env, config cty.Value) (drivers.Cloud, error) {
	entry, err := loadCloud(stringAttr(config, "cloud"), stringAttr(config, "region"), systemSurroundings())
	if err != nil {
		return nil, err
	}
	return open(ctx, env, entry, config)
}

// Endpoint says where a cloud is, for callers that know it themselves, such as the sandbox.
type Endpoint struct {
	AuthURL, Region, Username, Password, Project, Domain string
	// Transport carries the calls; nil means the network.
	Transport http.RoundTripper
	// CloudName is what instances say they run in.
	CloudName string
	// Closed, when set, is called when the Cloud is closed.
	Closed func() error
}

// Connect opens the cloud at the endpoint. The config is a value of SharedSchema().Provider; null and objects without
// its attributes mean the defaults.
func Connect(ctx context.Context, env drivers.Env, endpoint Endpoint, config cty.Value) (drivers.Cloud, error) {
	entry, err := endpointEntry(endpoint)
	if err != nil {
		return nil, err
	}
	return open(ctx, env, entry, config)
}
