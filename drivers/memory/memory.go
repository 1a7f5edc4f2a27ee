// Package memory provides a cloud in memory in place of the cloud of any driver. npctl test uses it, so that a test
// reaches no real cloud. Instances are ready at once. It differs from the contract on purpose: every flavor, network and image
// name exists, instances use no quota, and the content of images is discarded without a check.
package memory

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// Driver opens clouds in memory for the configurations of another driver. A provider has the same cloud in each Open.
type Driver struct {
	kind   string
	schema schema.Driver

	mu     sync.Mutex
	clouds map[string]*Cloud // by provider; guarded by mu
}

var _ drivers.Driver = (*Driver)(nil)

// Replace returns a driver with the kind and the schema of another driver.
func Replace(d drivers.Driver) *Driver {
	return &Driver{kind: d.Kind(), schema: d.Schema(), clouds: map[string]*Cloud{}}
}

// Kind implements drivers.Driver.
func (d *Driver) Kind() string { return d.kind }

// Schema implements drivers.Driver.
func (d *Driver) Schema() schema.Driver { return d.schema }

// Open implements drivers.Driver.
func (d *Driver) Open(_ context.Context, env drivers.Env, config cty.Value) (drivers.Cloud, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.clouds[env.Provider]
	if c == nil {
		c = &Cloud{instances: map[string]resources.Instance{}, images: map[string]resources.RemoteImage{}}
		d.clouds[env.Provider] = c
	}
	if !d.schema.HasImages {
		return c, nil
	}
	var own drivers.Format
	if err := schema.Decode(config, &own); err != nil {
		return nil, err
	}
	format := resources.ImageFormat(own.ImageFormat)
	if format == "" && len(d.schema.Formats) > 0 {
		format = d.schema.Formats[0]
	}
	return &imageCloud{c, format}, nil
}

// Cloud is a cloud in memory.
type Cloud struct {
	mu        sync.Mutex
	instances map[string]resources.Instance    // guarded by mu
	images    map[string]resources.RemoteImage // guarded by mu
}

var (
	_ drivers.Cloud      = (*Cloud)(nil)
	_ drivers.Resolver   = (*Cloud)(nil)
	_ drivers.ImageStore = (*imageCloud)(nil)
)

// Create implements drivers.Cloud. The ID of the instance is that of its record, so a second call returns the same
// instance.
func (c *Cloud) Create(ctx context.Context, spec drivers.Spec) (resources.Instance, error) {
	if err := ctx.Err(); err != nil {
		return resources.Instance{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	i := resources.Instance{ID: "memory-" + spec.Marks.ID, Name: spec.Hostname, Marks: spec.Marks, Status: resources.StatusReady, Zone: spec.Zone,
		Addresses: resources.Addresses{Interface: "192.0.2.1"}, Resources: resources.ResourceAmounts{Instances: 1}, Created: time.Now()}
	c.instances[i.ID] = i
	return i, nil
}

// Advance implements drivers.Cloud.
func (c *Cloud) Advance(ctx context.Context, _ drivers.Spec, seen resources.Instance) (resources.Instance, error) {
	return seen, ctx.Err()
}

// Delete implements drivers.Cloud.
func (c *Cloud) Delete(ctx context.Context, id string, expected resources.OwnerTags) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i, ok := c.instances[id]; ok && !i.Marks.SameRecord(expected) {
		return drivers.ErrNotOurs
	}
	delete(c.instances, id)
	return ctx.Err()
}

// List implements drivers.Cloud.
func (c *Cloud) List(ctx context.Context) ([]resources.Instance, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return sorted(c.instances, func(i resources.Instance) string { return i.ID }), ctx.Err()
}

func sorted[T any](all map[string]T, id func(T) string) []T {
	return slices.SortedFunc(maps.Values(all), func(a, b T) int { return strings.Compare(id(a), id(b)) })
}

// Quota implements drivers.Cloud.
func (c *Cloud) Quota(ctx context.Context) (resources.Quota, error) {
	return resources.Quota{Limit: resources.NoLimits()}, ctx.Err()
}

// Close implements drivers.Cloud. The content remains for the next Open.
func (c *Cloud) Close() error { return nil }

// ResolveOffer implements drivers.Resolver. All names exist.
func (c *Cloud) ResolveOffer(ctx context.Context, _ cty.Value) (resources.ResolvedOffer, []resources.Problem, error) {
	return resources.ResolvedOffer{Resources: resources.ResourceAmounts{Instances: 1}}, nil, ctx.Err()
}

// ResolveImage implements drivers.Resolver. All images exist.
func (c *Cloud) ResolveImage(ctx context.Context, spec resources.CloudImageSpec) (resources.RemoteImage, []resources.Problem, error) {
	name := spec.Name
	if spec.Image != "" {
		name = spec.Image
	}
	id := "memory-" + spec.Name
	if spec.ImageID != "" {
		id = spec.ImageID
	}
	return resources.RemoteImage{ID: id, Name: name, Status: resources.StatusReady}, nil, ctx.Err()
}

// imageCloud is a Cloud that accepts uploads. It discards the content of the images.
type imageCloud struct {
	*Cloud
	format string
}

// ImageFormat implements drivers.ImageStore.
func (c *imageCloud) ImageFormat() string { return c.format }

// UploadImage implements drivers.ImageStore.
func (c *imageCloud) UploadImage(ctx context.Context, spec drivers.ImageSpec, content io.ReadSeeker) (resources.RemoteImage, error) {
	size, err := io.Copy(io.Discard, content)
	if err := errors.Join(err, ctx.Err()); err != nil {
		return resources.RemoteImage{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	image := resources.RemoteImage{ID: "memory-" + spec.Marks.ID, Name: spec.Name, Marks: spec.Marks, Status: resources.StatusReady, Format: spec.Format,
		Size: size, SHA256: spec.SHA256, Properties: spec.Properties, Created: time.Now()}
	c.images[image.ID] = image
	return image, nil
}

// DeleteImage implements drivers.ImageStore.
func (c *imageCloud) DeleteImage(ctx context.Context, id string, expected resources.OwnerTags) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i, ok := c.images[id]; ok && !i.Marks.SameRecord(expected) {
		return drivers.ErrNotOurs
	}
	delete(c.images, id)
	return ctx.Err()
}

// ListImages implements drivers.ImageStore.
func (c *imageCloud) ListImages(ctx context.Context) ([]resources.RemoteImage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return sorted(c.images, func(i resources.RemoteImage) string { return i.ID }), ctx.Err()
}
