package gce

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/api/compute/v1"

	"github.com/npctl/npctl/drivers"
)

// calls are the API calls that the driver makes, with errors of package drivers. A field with the client in a type that
// is converted to an interface, such as Cloud, would make the linker keep all operations of Compute Engine.
type calls struct {
	region       func(ctx context.Context, region string) (*compute.Region, error)
	regions      func(ctx context.Context) ([]string, error)
	machineType  func(ctx context.Context, zone, name string) (*compute.MachineType, error)
	machineTypes func(ctx context.Context, zone string) ([]string, error)
	diskType     func(ctx context.Context, zone, name string) error
	diskTypes    func(ctx context.Context, zone string) ([]string, error)
	networks     func(ctx context.Context) ([]string, error)
	subnetworks  func(ctx context.Context, region string) ([]string, error)

	instances      func(ctx context.Context, filter string) ([]*compute.Instance, error)
	instance       func(ctx context.Context, at place) (*compute.Instance, error)
	insert         func(ctx context.Context, zone string, i *compute.Instance) (*compute.Operation, error)
	wait           func(ctx context.Context, zone, operation string) (*compute.Operation, error)
	deleteInstance func(ctx context.Context, at place) error
	serialPort     func(ctx context.Context, at place, start int64) (string, error)
	disks          func(ctx context.Context, filter string) ([]*compute.Disk, error)
	disk           func(ctx context.Context, at place) (*compute.Disk, error)
	deleteDisk     func(ctx context.Context, at place) error

	image  func(ctx context.Context, project, name string) (*compute.Image, error)
	family func(ctx context.Context, project, name string) (*compute.Image, error)
	images func(ctx context.Context, project string) ([]*compute.Image, error)
}

// place is the zone and the name of an object. As text, zone/name, it is the ID.
type place struct{ zone, name string }

func (p place) String() string { return p.zone + "/" + p.name }

// placeOf parses an ID. Other texts are not the ID of any object.
func placeOf(id string) (place, bool) {
	zone, name, ok := strings.Cut(id, "/")
	return place{zone, name}, ok && zone != "" && name != "" && !strings.Contains(name, "/")
}

// pageSize is the largest page of Compute Engine.
const pageSize = 500

// Parts of instances, disks and images that npctl reads. They exclude metadata, which may be long.
const (
	instanceFields = "creationTimestamp,disks(autoDelete,boot,deviceName,source),labels,machineType,name,networkInterfaces(accessConfigs(natIP),networkIP),scheduling(provisioningModel),status,statusMessage,zone"
	diskFields     = "labels,name,users,zone"
	imageFields    = "architecture,archiveSizeBytes,creationTimestamp,deprecated(state),diskSizeGb,family,labels,name,selfLink,status"
)

func newCalls(s *compute.Service, project string) *calls {
	c := &calls{}
	c.readNames(s, project)
	c.readObjects(s, project)
	c.changes(s, project)
	c.readImages(s)
	return c
}

// readNames sets the calls that resolve names in the configuration.
func (c *calls) readNames(s *compute.Service, project string) {
	c.region = func(ctx context.Context, region string) (*compute.Region, error) {
		r, err := s.Regions.Get(project, region).Context(ctx).Do()
		return r, wrap("read region "+region+" of project "+project, err)
	}
	c.regions = func(ctx context.Context) ([]string, error) {
		list := s.Regions.List(project).Fields("nextPageToken", "items/name").MaxResults(pageSize)
		found, err := collect(ctx, "list regions", list.Pages, func(p *compute.RegionList) ([]*compute.Region, string, []string) {
			return p.Items, p.NextPageToken, nil
		})
		return drivers.NamesOf(found, func(i *compute.Region) string { return i.Name }), err
	}
	c.machineType = func(ctx context.Context, zone, name string) (*compute.MachineType, error) {
		m, err := s.MachineTypes.Get(project, zone, name).Fields("name", "guestCpus", "memoryMb").Context(ctx).Do()
		return m, wrap("read machine type "+name+" in "+zone, err)
	}
	c.machineTypes = func(ctx context.Context, zone string) ([]string, error) {
		list := s.MachineTypes.List(project, zone).Fields("nextPageToken", "items/name").MaxResults(pageSize)
		found, err := collect(ctx, "list machine types in "+zone, list.Pages, func(p *compute.MachineTypeList) ([]*compute.MachineType, string, []string) {
			return p.Items, p.NextPageToken, nil
		})
		return drivers.NamesOf(found, func(i *compute.MachineType) string { return i.Name }), err
	}
	c.diskType = func(ctx context.Context, zone, name string) error {
		_, err := s.DiskTypes.Get(project, zone, name).Fields("name").Context(ctx).Do()
		return wrap("read disk type "+name+" in "+zone, err)
	}
	c.diskTypes = func(ctx context.Context, zone string) ([]string, error) {
		list := s.DiskTypes.List(project, zone).Fields("nextPageToken", "items/name").MaxResults(pageSize)
		found, err := collect(ctx, "list disk types in "+zone, list.Pages, func(p *compute.DiskTypeList) ([]*compute.DiskType, string, []string) {
			return p.Items, p.NextPageToken, nil
		})
		return drivers.NamesOf(found, func(i *compute.DiskType) string { return i.Name }), err
	}
	c.networks = func(ctx context.Context) ([]string, error) {
		list := s.Networks.List(project).Fields("nextPageToken", "items/name").MaxResults(pageSize)
		found, err := collect(ctx, "list networks", list.Pages, func(p *compute.NetworkList) ([]*compute.Network, string, []string) {
			return p.Items, p.NextPageToken, nil
		})
		return drivers.NamesOf(found, func(i *compute.Network) string { return i.Name }), err
	}
	c.subnetworks = func(ctx context.Context, region string) ([]string, error) {
		list := s.Subnetworks.List(project, region).Fields("nextPageToken", "items/name").MaxResults(pageSize)
		found, err := collect(ctx, "list subnetworks in "+region, list.Pages, func(p *compute.SubnetworkList) ([]*compute.Subnetwork, string, []string) {
			return p.Items, p.NextPageToken, nil
		})
		return drivers.NamesOf(found, func(i *compute.Subnetwork) string { return i.Name }), err
	}
}

// readObjects sets the calls that list and read instances and disks. A list without a zone that does not respond is an
// error: its instances still exist.
func (c *calls) readObjects(s *compute.Service, project string) {
	c.instances = func(ctx context.Context, filter string) ([]*compute.Instance, error) {
		list := s.Instances.AggregatedList(project).MaxResults(pageSize).
			Fields("nextPageToken", "unreachables", "items/*/warning/code", "items/*/instances("+instanceFields+")")
		if filter != "" {
			list.Filter(filter)
		}
		return collect(ctx, "list instances", list.Pages, func(p *compute.InstanceAggregatedList) (found []*compute.Instance, next string, missing []string) {
			missing = p.Unreachables
			for _, scope := range slices.Sorted(maps.Keys(p.Items)) {
				if w := p.Items[scope].Warning; w != nil && w.Code == unreachable {
					missing = append(missing, scope)
				}
				found = append(found, p.Items[scope].Instances...)
			}
			return found, p.NextPageToken, missing
		})
	}
	c.disks = func(ctx context.Context, filter string) ([]*compute.Disk, error) {
		list := s.Disks.AggregatedList(project).Filter(filter).MaxResults(pageSize).
			Fields("nextPageToken", "unreachables", "items/*/warning/code", "items/*/disks("+diskFields+")")
		return collect(ctx, "list disks", list.Pages, func(p *compute.DiskAggregatedList) (found []*compute.Disk, next string, missing []string) {
			missing = p.Unreachables
			for _, scope := range slices.Sorted(maps.Keys(p.Items)) {
				if w := p.Items[scope].Warning; w != nil && w.Code == unreachable {
					missing = append(missing, scope)
				}
				found = append(found, p.Items[scope].Disks...)
			}
			return found, p.NextPageToken, missing
		})
	}
	c.instance = func(ctx context.Context, at place) (*compute.Instance, error) {
		i, err := s.Instances.Get(project, at.zone, at.name).Fields(instanceFields).Context(ctx).Do()
		return i, wrap("read instance "+at.String(), err)
	}
	c.disk = func(ctx context.Context, at place) (*compute.Disk, error) {
		d, err := s.Disks.Get(project, at.zone, at.name).Fields(diskFields).Context(ctx).Do()
		return d, wrap("read disk "+at.String(), err)
	}
	c.serialPort = func(ctx context.Context, at place, start int64) (string, error) {
		output, err := s.Instances.GetSerialPortOutput(project, at.zone, at.name).Port(1).Start(start).Context(ctx).Do()
		if err != nil {
			return "", wrap("read serial port of instance "+at.String(), err)
		}
		return output.Contents, nil
	}
}

// unreachable is the code of the warning about a zone that is missing in a list.
const unreachable = "UNREACHABLE"

// collect returns the items of all pages. read returns the items of a page, the token of the next one, and the zones that are missing
// in the list.
func collect[P, T any](ctx context.Context, doing string, pages func(context.Context, func(P) error) error, read func(P) ([]T, string, []string)) (all []T, err error) {
	var listed drivers.Pages
	err = pages(ctx, func(page P) error {
		items, next, missing := read(page)
		all = append(all, items...)
		err := listed.Next(next, len(items))
		if err == nil && len(missing) > 0 {
			err = fmt.Errorf("%w: the list lacks %s", drivers.ErrUnavailable, strings.Join(missing, ", "))
		}
		return err
	})
	return all, wrap(doing, err)
}

// changes sets the calls that change something.
func (c *calls) changes(s *compute.Service, project string) {
	c.insert = func(ctx context.Context, zone string, i *compute.Instance) (*compute.Operation, error) {
		op, err := s.Instances.Insert(project, zone, i).Context(ctx).Do()
		return op, wrap("create instance "+i.Name+" ("+base(i.MachineType)+") in "+zone, err)
	}
	c.wait = func(ctx context.Context, zone, operation string) (*compute.Operation, error) {
		op, err := s.ZoneOperations.Wait(project, zone, operation).Context(ctx).Do()
		return op, wrap("wait for operation "+operation, err)
	}
	c.deleteInstance = func(ctx context.Context, at place) error {
		_, err := s.Instances.Delete(project, at.zone, at.name).Context(ctx).Do()
		return wrap("delete instance "+at.String(), err)
	}
	c.deleteDisk = func(ctx context.Context, at place) error {
		_, err := s.Disks.Delete(project, at.zone, at.name).Context(ctx).Do()
		return wrap("delete disk "+at.String(), err)
	}
}

// readImages sets the calls that find images, which may be in other projects.
func (c *calls) readImages(s *compute.Service) {
	c.image = func(ctx context.Context, project, name string) (*compute.Image, error) {
		i, err := s.Images.Get(project, name).Fields(imageFields).Context(ctx).Do()
		return i, wrap("read image "+name+" of project "+project, err)
	}
	c.family = func(ctx context.Context, project, name string) (*compute.Image, error) {
		i, err := s.Images.GetFromFamily(project, name).Fields(imageFields).Context(ctx).Do()
		return i, wrap("read image family "+name+" of project "+project, err)
	}
	c.images = func(ctx context.Context, project string) ([]*compute.Image, error) {
		list := s.Images.List(project).MaxResults(pageSize).Fields("nextPageToken", "items("+imageFields+")")
		return collect(ctx, "list images of project "+project, list.Pages, func(p *compute.ImageList) ([]*compute.Image, string, []string) { return p.Items, p.NextPageToken, nil })
	}
}
