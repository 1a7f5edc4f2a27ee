package sandbox

import (
	"context"
	"sync"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources/schema"
)

// Replacement opens clouds in memory in place of the clouds of another driver, for npctl test: they reach no real cloud. Servers are
// ready at once. Every flavor, network and image exists, servers use no quota, and the content of images is not checked.
type Replacement struct {
	kind   string
	schema schema.Driver

	mu     sync.Mutex
	clouds map[string]*Cloud // by provider; guarded by mu
}

var _ drivers.Driver = (*Replacement)(nil)

// Replace returns a driver with the kind and the schema of another driver. A provider has the same cloud in each Open.
func Replace(d drivers.Driver) *Replacement {
	return &Replacement{kind: d.Kind(), schema: d.Schema(), clouds: map[string]*Cloud{}}
}

// Kind implements drivers.Driver.
func (d *Replacement) Kind() string { return d.kind }

// Schema implements drivers.Driver.
func (d *Replacement) Schema() schema.Driver { return d.schema }

// Open implements drivers.Driver.
func (d *Replacement) Open(_ context.Context, env drivers.Env, config cty.Value) (drivers.Cloud, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.clouds[env.Provider]
	if c == nil {
		c = &Cloud{store: &store{}, catalog: catalog{anything: true}}
		d.clouds[env.Provider] = c
	}
	if !d.schema.HasImages {
		return c, nil
	}
	var own drivers.Format
	if err := cloudkit.Decode(config, &own); err != nil {
		return nil, err
	}
	if own.ImageFormat == "" && len(d.schema.Formats) > 0 {
		own.ImageFormat = d.schema.Formats[0]
	}
	return &imageStore{c, own.ImageFormat}, nil
}
