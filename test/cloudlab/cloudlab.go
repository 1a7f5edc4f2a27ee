// Package cloudlab provides OpenStacks for tests that outlive the processes under test.
package cloudlab

import (
	"context"
	"net/http"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	gopheropenstack "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders/exec"
	"github.com/npctl/npctl/config"
	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/openstack"
	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
	"github.com/npctl/npctl/state/bolt"
)

// Driver is the driver "lab": the openstack driver with an emulator for each provider.
type Driver struct {
	Clouds map[string]*emulator.Cloud // by provider
	// Connecting, if set, may change how a provider is reached.
	Connecting func(provider string, at *openstack.Endpoint)
}

// New opens clouds for providers until the end of the test.
func New(t testing.TB, o emulator.Options, providers ...string) Driver {
	t.Helper()
	d := Driver{Clouds: map[string]*emulator.Cloud{}}
	for _, name := range providers {
		d.Clouds[name] = open(t, o)
	}
	return d
}

// open opens a cloud until the end of the test.
func open(t testing.TB, o emulator.Options) *emulator.Cloud {
	t.Helper()
	cloud, err := emulator.Open(o)
	testutil.Must(t, err)
	t.Cleanup(func() { _ = cloud.Close() })
	return cloud
}

// Kind implements drivers.Driver.
func (Driver) Kind() string { return "lab" }

// Schema implements drivers.Driver.
func (Driver) Schema() schema.Driver { return openstack.SharedSchema() }

// Open implements drivers.Driver.
func (d Driver) Open(ctx context.Context, env drivers.Env, config cty.Value) (drivers.Cloud, error) {
	cloud := d.Clouds[env.Provider]
	access := cloud.Access()
	at := openstack.Endpoint{AuthURL: access.AuthURL, Region: access.Region, Username: access.Username, Password: access.Password,
		Project: access.Project, Domain: access.Domain, Transport: cloud.Transport(), CloudName: env.Provider}
	if d.Connecting != nil {
		d.Connecting(env.Provider, &at)
	}
	return openstack.Connect(ctx, env, at, config)
}

// ResolverOf implements drivers.CatalogueReader.
func (Driver) ResolverOf(config cty.Value, names resources.Catalogue) (drivers.Resolver, error) {
	return openstack.New().ResolverOf(config, names)
}

// Account returns a client of npctl's project, with which tests act like a person.
func Account(t testing.TB, cloud *emulator.Cloud) (*gophercloud.ProviderClient, gophercloud.EndpointOpts) {
	t.Helper()
	access := cloud.Access()
	account, err := gopheropenstack.NewClient(access.AuthURL)
	testutil.Must(t, err)
	account.HTTPClient = http.Client{Transport: cloud.Transport()}
	testutil.Must(t, gopheropenstack.Authenticate(t.Context(), account, gophercloud.AuthOptions{IdentityEndpoint: access.AuthURL, Username: access.Username,
		Password: access.Password, TenantName: access.Project, DomainName: access.Domain}))
	return account, gophercloud.EndpointOpts{Region: access.Region}
}

// Load loads the configuration in a directory. It may use these drivers, the builder "exec" and a local state.
func Load(dir string, all map[string]drivers.Driver) (resources.Desired, error) {
	schemas := map[string]schema.Driver{}
	for kind, d := range all {
		schemas[kind] = d.Schema()
	}
	loaded, diags := config.Load(config.Options{Path: dir, Drivers: schemas,
		Builders: map[string]schema.Block{"exec": (&exec.Builder{}).Schema()}, States: map[string]schema.Block{"bolt": bolt.Schema()}})
	if diags.HasErrors() {
		return resources.Desired{}, diags
	}
	return loaded.Desired, nil
}
