package sandbox

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// Cloud is a cloud in a file.
type Cloud struct {
	store                            *store
	catalog                          catalog
	buildTime, deleteTime, imageTime time.Duration
	faults                           faultBook
}

var (
	_ drivers.Cloud    = (*Cloud)(nil)
	_ drivers.Resolver = (*Cloud)(nil)
)

// Create implements drivers.Cloud. A second call for a record returns the same server.
func (c *Cloud) Create(ctx context.Context, spec drivers.Spec) (resources.Instance, error) {
	var made resources.Instance
	err := c.call(ctx, opCreate, spec.Hostname, func(f *fleet, hit *fault) error {
		now := time.Now()
		if s := f.ofRecord(spec.Marks); s != nil {
			made = s.instance(now)
			return nil
		}
		s, err := c.newServer(f, spec, now)
		if err != nil {
			return err
		}
		if hit != nil && hit.Action == actionFailed {
			s.Fault = hit.text()
		}
		f.Instances[s.ID] = s
		made = s.instance(now)
		return nil
	})
	return made, err
}

// newServer checks a Spec and returns its server, which is not yet in the fleet.
func (c *Cloud) newServer(f *fleet, spec drivers.Spec, now time.Time) (*server, error) {
	o, err := c.catalog.offer(spec.Config)
	if err != nil {
		return nil, err
	}
	if !c.catalog.anything {
		if i := f.Images[spec.ImageID]; i == nil || i.Pending {
			return nil, drivers.Rejectf("there is no ready image with the ID %s", spec.ImageID)
		}
		if spec.Zone != "" && !slices.Contains(c.catalog.zones, spec.Zone) {
			return nil, drivers.Rejectf("there is no zone %s", spec.Zone)
		}
	}
	existing := f.servers(now)
	if err := c.catalog.checkQuota(used(existing), o.amounts()); err != nil {
		return nil, err
	}
	s := &server{ID: uuid.NewString(), Name: spec.Hostname, Metadata: map[string]string{}, Image: spec.ImageID, Flavor: o.flavor.Name, Amounts: o.amounts(),
		Zone: o.zone(spec.Zone, existing), Networks: o.settings.Networks, Address: f.address(), Created: now, Ready: now.Add(c.buildTime)}
	for _, values := range []map[string]string{o.settings.InstanceProperties, spec.Properties, drivers.EncodeTags(spec.Marks)} {
		maps.Copy(s.Metadata, values)
	}
	if o.flavor.NoHost {
		s.Fault, s.FaultKind = "no host has capacity for the flavor "+o.flavor.Name, resources.FaultCapacity
	}
	return s, nil
}

// address returns the next address of 198.18.0.0/15, which is reserved for tests and leads nowhere (RFC 2544).
func (f *fleet) address() string {
	f.Addresses++
	n := f.Addresses % (1 << 17)
	return fmt.Sprintf("198.%d.%d.%d", 18+n>>16, n>>8&0xff, n&0xff)
}

func used(servers []*server) (sum resources.ResourceAmounts) {
	for _, s := range servers {
		sum = sum.Plus(s.Amounts)
	}
	return sum
}

// Advance implements drivers.Cloud.
func (c *Cloud) Advance(ctx context.Context, _ drivers.Spec, seen resources.Instance) (resources.Instance, error) {
	return seen, ctx.Err()
}

// Delete implements drivers.Cloud.
func (c *Cloud) Delete(ctx context.Context, id string, expected resources.OwnerTags) error {
	return c.call(ctx, opDelete, id, func(f *fleet, _ *fault) error {
		s := f.Instances[id]
		if s == nil {
			return nil
		}
		if err := drivers.CheckOwner("server", id, s.owner(), expected); err != nil {
			return err
		}
		if s.Gone.IsZero() {
			s.Gone = time.Now().Add(c.deleteTime)
		}
		f.removeDeleted(time.Now())
		return nil
	})
}

// List implements drivers.Cloud.
func (c *Cloud) List(ctx context.Context) (list []resources.Instance, err error) {
	err = c.read(ctx, opList, func(f *fleet) error {
		now := time.Now()
		for _, s := range f.servers(now) {
			list = append(list, s.instance(now))
		}
		return nil
	})
	return list, err
}

// Quota implements drivers.Cloud.
func (c *Cloud) Quota(ctx context.Context) (q resources.Quota, err error) {
	if c.catalog.anything {
		return resources.Quota{Limit: resources.NoLimits()}, ctx.Err()
	}
	err = c.read(ctx, opQuota, func(f *fleet) error {
		q = resources.Quota{Limit: c.catalog.limits, Used: used(f.servers(time.Now()))}
		return nil
	})
	return q, err
}

// Close implements drivers.Cloud.
func (*Cloud) Close() error { return nil }

// seed creates the objects of blocks that the file has never had.
func (c *Cloud) seed(s providerSettings) error {
	missing := func(f *fleet) (images []publicImage, servers []foreignServer) {
		for _, i := range s.Images {
			if !f.Seeded["public_image "+i.Name] {
				images = append(images, i)
			}
		}
		for _, one := range s.Foreign {
			if !f.Seeded["foreign_server "+one.Name] {
				servers = append(servers, one)
			}
		}
		return images, servers
	}
	complete := false
	err := c.store.view(func(f *fleet) error {
		images, servers := missing(f)
		complete = len(images)+len(servers) == 0
		return nil
	})
	if err != nil || complete {
		return err
	}
	return c.store.change(func(f *fleet) error {
		images, servers := missing(f)
		now := time.Now()
		for _, i := range images {
			made := &image{ID: uuid.NewString(), Name: i.Name, Properties: i.Properties, Public: !i.Private, Format: "raw", Created: now}
			f.Images[made.ID], f.Seeded["public_image "+i.Name] = made, true
		}
		for _, one := range servers {
			size, err := c.catalog.flavor(one.Flavor)
			if err != nil {
				return drivers.Rejectf("foreign_server %s: %w", one.Name, err)
			}
			made := &server{ID: uuid.NewString(), Name: one.Name, Metadata: one.Metadata, Flavor: one.Flavor, Amounts: offer{flavor: size}.amounts(),
				Zone: c.catalog.zones[0], Networks: networks[:1], Address: f.address(), Created: now, Ready: now}
			f.Instances[made.ID], f.Seeded["foreign_server "+one.Name] = made, true
		}
		return nil
	})
}
