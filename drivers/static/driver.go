// Package static is the driver of machines that exist without npctl.
//
// It has no API: the configuration lists the nodes, and the records show which of them are free. Nodes are therefore
// registered rather than launched, the Cloud lists nothing, deletion does nothing, and there are no limits. Unlike nodes
// of a cloud, static nodes may be unreachable: see Check.
package static

import (
	"context"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// Driver is the static driver.
type Driver struct{}

var _ drivers.Driver = (*Driver)(nil)

// New returns the driver.
func New() *Driver { return &Driver{} }

// Kind implements drivers.Driver.
func (*Driver) Kind() string { return "static" }

// Open implements drivers.Driver. It makes no connection.
func (*Driver) Open(_ context.Context, env drivers.Env, _ cty.Value) (drivers.Cloud, error) {
	return &Cloud{provider: env.Provider}, nil
}

// Cloud represents the machines of a provider.
type Cloud struct{ provider string }

var (
	_ drivers.Cloud   = (*Cloud)(nil)
	_ drivers.Checker = (*Cloud)(nil)
)

// Create implements drivers.Cloud: the machine in the Spec exists, and is ready at once.
func (*Cloud) Create(ctx context.Context, spec drivers.Spec) (resources.Instance, error) {
	return resources.Instance{
		ID: spec.Hostname, Name: spec.Hostname, Marks: spec.Marks, Status: resources.StatusReady,
		Addresses: resources.Addresses{Interface: spec.Hostname}, Resources: resources.ResourceAmounts{Instances: 1},
	}, ctx.Err()
}

// Advance implements drivers.Cloud.
func (*Cloud) Advance(ctx context.Context, _ drivers.Spec, seen resources.Instance) (resources.Instance, error) {
	return seen, ctx.Err()
}

// Delete implements drivers.Cloud. It does not change the machine.
func (*Cloud) Delete(ctx context.Context, _ string, _ resources.OwnerTags) error { return ctx.Err() }

// List implements drivers.Cloud. It returns nothing, because only the configuration lists the machines.
func (*Cloud) List(ctx context.Context) ([]resources.Instance, error) { return nil, ctx.Err() }

// Quota implements drivers.Cloud.
func (*Cloud) Quota(ctx context.Context) (resources.Quota, error) {
	return resources.Quota{Limit: resources.NoLimits()}, ctx.Err()
}

// Close implements drivers.Cloud.
func (*Cloud) Close() error { return nil }
