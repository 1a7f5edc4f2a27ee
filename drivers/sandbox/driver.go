// Package sandbox is a driver with a cloud inside npctl: the unchanged openstack driver on the OpenStack emulation of
// package sandboxcloud. It needs no account, no root and no network, so the quickstart, the examples and most tests
// use it.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources/schema"
)

// Endpoint is the access to the cloud for the openstack driver.
type Endpoint struct {
	AuthURL, Region, Username, Password, Project, Domain string
	Transport                                            http.RoundTripper
	CloudName                                            string
	Closed                                               func() error // called by Close of the Cloud
}

// Connect opens a cloud with the openstack driver. New receives it as an argument, because drivers do not import each
// other.
type Connect func(ctx context.Context, env drivers.Env, at Endpoint, config cty.Value) (drivers.Cloud, error)

// Driver opens sandbox clouds.
type Driver struct {
	shared  schema.Driver
	connect Connect
	mu      sync.Mutex // held while a cloud is being opened
}

var _ drivers.Driver = (*Driver)(nil)

// New returns the driver. shared is the schema that the openstack driver shares with drivers that provide their own
// cloud.
func New(shared schema.Driver, connect Connect) *Driver {
	return &Driver{shared: shared, connect: connect}
}

// Kind implements drivers.Driver.
func (*Driver) Kind() string { return "sandbox" }

// Open implements drivers.Driver. It returns a Cloud of the openstack driver, with all its abilities. The cloud is
// its file: nothing runs after the calls, except the SSH server, which ends when the Cloud is closed.
func (d *Driver) Open(ctx context.Context, env drivers.Env, config cty.Value) (drivers.Cloud, error) {
	options, err := d.optionsOf(env, config)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", drivers.ErrRejected, err)
	}
	cloud, err := d.openCloud(env, options)
	if err != nil {
		return nil, err
	}
	ssh := serveSSH(ctx, env, cloud, options.SSHPort)
	closed := func() error { return errors.Join(cloud.Close(), ssh()) }
	access := cloud.Access()
	c, err := d.connect(ctx, env, Endpoint{
		AuthURL: access.AuthURL, Region: access.Region, Username: access.Username, Password: access.Password,
		Project: access.Project, Domain: access.Domain, Transport: cloud.Transport(), CloudName: env.Provider, Closed: closed,
	}, config)
	if err != nil {
		return nil, errors.Join(err, closed())
	}
	return c, nil
}
