package cloudkit

import (
	"context"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources/schema"
)

// driver is a drivers.Driver of which the provider block is an S.
type driver[S any] struct {
	kind   string
	schema func() schema.Driver
	open   func(context.Context, drivers.Env, S) (drivers.Cloud, error)
}

// NewDriver returns the driver of a kind. open gets the decoded provider block.
func NewDriver[S any](kind string, schema func() schema.Driver, open func(context.Context, drivers.Env, S) (drivers.Cloud, error)) drivers.Driver {
	return &driver[S]{kind, schema, open}
}

// Kind implements drivers.Driver.
func (d *driver[S]) Kind() string { return d.kind }

// Schema implements drivers.Driver.
func (d *driver[S]) Schema() schema.Driver { return d.schema() }

// Open implements drivers.Driver.
func (d *driver[S]) Open(ctx context.Context, env drivers.Env, config cty.Value) (drivers.Cloud, error) {
	var settings S
	if err := Decode(config, &settings); err != nil {
		return nil, err
	}
	return d.open(ctx, env, settings)
}
