// Package sandbox is a driver with a cloud inside npctl: the unchanged openstack driver on the OpenStack emulation of
// package sandboxcloud. It needs no account, no root and no network, so the quickstart, the examples and most tests
// use it.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
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

// Schema implements drivers.Driver.
func (d *Driver) Schema() schema.Driver {
	s := d.shared
	s.Doc = driverDoc
	own := providerSchema()
	s.Provider = schema.Block{
		Attributes: append(own.Attributes, d.shared.Provider.Attributes...),
		Blocks:     append(own.Blocks, d.shared.Provider.Blocks...),
	}
	s.Pool.Attributes = slices.Clone(s.Pool.Attributes)
	for i := range s.Pool.Attributes {
		if a := &s.Pool.Attributes[i]; a.Name == "host_key_checking" {
			a.Default = cty.False
			a.Doc += " The default is false because servers of the sandbox do not respond without `ssh_port`."
		}
	}
	return s
}

// Open implements drivers.Driver. It returns a Cloud of the openstack driver, with all its abilities. The cloud is
// its file: nothing runs after the calls, except the SSH server, which ends when the Cloud is closed.
func (d *Driver) Open(ctx context.Context, env drivers.Env, config cty.Value) (drivers.Cloud, error) {
	options, err := optionsOf(config)
	if err == nil {
		err = options.Check()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", drivers.ErrRejected, err)
	}
	options.Log = env.Log
	if options.File, err = stateFile(env, config); err != nil {
		return nil, fmt.Errorf("%w: %w", drivers.ErrRejected, err)
	}
	cloud, err := d.openCloud(env, options)
	if err != nil {
		return nil, err
	}
	ssh := serveSSH(ctx, env, cloud, config)
	closed := func() error { return errors.Join(cloud.Close(), ssh()) }
	access := cloud.Access()
	c, err := d.connect(ctx, env, Endpoint{
		AuthURL: access.AuthURL, Region: access.Region, Username: access.Username, Password: access.Password,
		Project: access.Project, Domain: access.Domain, Transport: cloud.Transport(), CloudName: env.Provider, Closed: closed,
	}, d.sharedPart(config))
	if err != nil {
		return nil, errors.Join(err, closed())
	}
	return c, nil
}

// defaultFile is the name of the file in the provider's own directory.
const defaultFile = "sandbox.json"

// stateFile returns the path of the cloud's file.
func stateFile(env drivers.Env, config cty.Value) (string, error) {
	file := text(config, "file")
	switch {
	case filepath.IsAbs(file):
		return file, nil
	case env.Dir == "":
		return "", errors.New("the sandbox has no directory for its file; write an absolute path as file")
	case file == "":
		file = defaultFile
	}
	return filepath.Join(env.Dir, file), nil
}

// sharedPart returns the attributes of the configuration that the openstack driver knows.
func (d *Driver) sharedPart(config cty.Value) cty.Value {
	values := map[string]cty.Value{}
	for name, kind := range d.shared.Provider.Type().AttributeTypes() {
		if values[name] = attribute(config, name); values[name].IsNull() {
			values[name] = cty.NullVal(kind)
		}
	}
	return cty.ObjectVal(values)
}
