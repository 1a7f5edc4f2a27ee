package main

import (
	"context"
	"maps"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/builders/dib"
	"github.com/npctl/npctl/builders/exec"
	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/openstack"
	"github.com/npctl/npctl/drivers/sandbox"
	"github.com/npctl/npctl/drivers/static"
	"github.com/npctl/npctl/resources/schema"
	"github.com/npctl/npctl/state/bolt"
)

// registry is everything that can be chosen by kind in a configuration.
type registry struct {
	drivers  map[string]drivers.Driver
	builders map[string]builders.Builder
	states   map[string]schema.Block
}

// newRegistry lists what this npctl is made of. A new driver, builder or store is one line here.
func newRegistry() registry {
	r := registry{
		drivers:  map[string]drivers.Driver{},
		builders: map[string]builders.Builder{},
		states: map[string]schema.Block{
			stateBolt: bolt.Schema(),
		},
	}
	for _, d := range []drivers.Driver{
		openstack.New(),
		sandbox.New(openstack.SharedSchema(), connectSandbox),
		static.New(),
	} {
		r.drivers[d.Kind()] = d
	}
	for _, b := range []builders.Builder{
		&dib.Builder{},
		&exec.Builder{},
	} {
		r.builders[b.Kind()] = b
	}
	return r
}

// stateBolt is the kind of the default store.
const stateBolt = "bolt"

func (r registry) driverSchemas() map[string]schema.Driver {
	schemas := make(map[string]schema.Driver, len(r.drivers))
	for kind, d := range r.drivers {
		schemas[kind] = d.Schema()
	}
	return schemas
}

func (r registry) builderSchemas() map[string]schema.Block {
	schemas := make(map[string]schema.Block, len(r.builders))
	for kind, b := range r.builders {
		schemas[kind] = b.Schema()
	}
	return schemas
}

func (r registry) driverKinds() []string  { return slices.Sorted(maps.Keys(r.drivers)) }
func (r registry) builderKinds() []string { return slices.Sorted(maps.Keys(r.builders)) }
func (r registry) stateKinds() []string   { return slices.Sorted(maps.Keys(r.states)) }

// connectSandbox lets the sandbox driver reach its cloud through the openstack driver.
func connectSandbox(ctx context.Context, env drivers.Env, at sandbox.Endpoint, config cty.Value) (drivers.Cloud, error) {
	return openstack.Connect(ctx, env, openstack.Endpoint(at), config)
}
