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
	c.regions = func(ctx context.Context) (all []string, err error) {
		var listed drivers.Pages
		err = s.Regions.List(project).Fields("nextPageToken", "items/name").MaxResults(pageSize).Pages(ctx, func(page *compute.RegionList) error {
			for _, r := range page.Items {
				all = append(all, r.Name)
			}
			return listed.Next(page.NextPageToken, len(page.Items))
		})
		return all, wrap("list regions", err)
	}
	c.machineType = func(ctx context.Context, zone, name string) (*compute.MachineType, error) {
		m, err := s.MachineTypes.Get(project, zone, name).Fields("name", "guestCpus", "memoryMb").Context(ctx).Do()
		return m, wrap("read machine type "+name+" in "+zone, err)
	}
	c.machineTypes = func(ctx context.Context, zone string) (all []string, err error) {
		var listed drivers.Pages
		err = s.MachineTypes.List(project, zone).Fields("nextPageToken", "items/name").MaxResults(pageSize).Pages(ctx, func(page *compute.MachineTypeList) error {
			for _, m := range page.Items {
				all = append(all, m.Name)
			}
			return listed.Next(page.NextPageToken, len(page.Items))
		})
		return all, wrap("list machine types in "+zone, err)
	}
	c.diskType = func(ctx context.Context, zone, name string) error {
		_, err := s.DiskTypes.Get(project, zone, name).Fields("name").Context(ctx).Do()
		return wrap("read disk type "+name+" in "+zone, err)
	}
	c.diskTypes = func(ctx context.Context, zone string) (all []string, err error) {
		var listed drivers.Pages
		err = s.DiskTypes.List(project, zone).Fields("nextPageToken", "items/name").MaxResults(pageSize).Pages(ctx, func(page *compute.DiskTypeList) error {
			for _, d := range page.Items {
				all = append(all, d.Name)
			}
			return listed.Next(page.NextPageToken, len(page.Items))
		})
		return all, wrap("list disk types in "+zone, err)
	}
	c.networks = func(ctx context.Context) (all []string, err error) {
		var listed drivers.Pages
		err = s.Networks.List(project).Fields("nextPageToken", "items/name").MaxResults(pageSize).Pages(ctx, func(page *compute.NetworkList) error {
			for _, n := range page.Items {
				all = append(all, n.Name)
			}
			return listed.Next(page.NextPageToken, len(page.Items))
		})
		return all, wrap("list networks", err)
	}
	c.subnetworks = func(ctx context.Context, region string) (all []string, err error) {
		var listed drivers.Pages
		err = s.Subnetworks.List(project, region).Fields("nextPageToken", "items/name").MaxResults(pageSize).Pages(ctx, func(page *compute.SubnetworkList) error {
			for _, n := range page.Items {
				all = append(all, n.Name)
			}
			return listed.Next(page.NextPageToken, len(page.Items))
		})
		return all, wrap("list subnetworks in "+region, err)
	}
}

// readObjects sets the calls that list and read instances and disks. A list without a zone that does not respond is an
// error: its instances still exist.
func (c *calls) readObjects(s *compute.Service, project string) {
	c.instances = func(ctx context.Context, filter string) (found []*compute.Instance, err error) {
		var listed drivers.Pages
		call := s.Instances.AggregatedList(project).MaxResults(pageSize)
		if filter != "" {
			call.Filter(filter)
		}
		err = call.Fields("nextPageToken", "unreachables", "items/*/warning/code", "items/*/instances("+instanceFields+")").
			Pages(ctx, func(page *compute.InstanceAggregatedList) error {
				before, missing := len(found), page.Unreachables
				for _, scope := range slices.Sorted(maps.Keys(page.Items)) {
					if w := page.Items[scope].Warning; w != nil && w.Code == unreachable {
						missing = append(missing, scope)
					}
					found = append(found, page.Items[scope].Instances...)
				}
				if err := listed.Next(page.NextPageToken, len(found)-before); err != nil {
					return err
				}
				return incomplete(missing)
			})
		return found, wrap("list instances", err)
	}
	c.disks = func(ctx context.Context, filter string) (found []*compute.Disk, err error) {
		var listed drivers.Pages
		err = s.Disks.AggregatedList(project).Filter(filter).MaxResults(pageSize).
			Fields("nextPageToken", "unreachables", "items/*/warning/code", "items/*/disks("+diskFields+")").
			Pages(ctx, func(page *compute.DiskAggregatedList) error {
				before, missing := len(found), page.Unreachables
				for _, scope := range slices.Sorted(maps.Keys(page.Items)) {
					if w := page.Items[scope].Warning; w != nil && w.Code == unreachable {
						missing = append(missing, scope)
					}
					found = append(found, page.Items[scope].Disks...)
				}
				if err := listed.Next(page.NextPageToken, len(found)-before); err != nil {
					return err
				}
				return incomplete(missing)
			})
		return found, wrap("list disks", err)
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

func incomplete(missing []string) error {
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w: the list lacks %s", drivers.ErrUnavailable, strings.Join(missing, ", "))
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
	c.images = func(ctx context.Context, project string) (found []*compute.Image, err error) {
		var listed drivers.Pages
		err = s.Images.List(project).MaxResults(pageSize).Fields("nextPageToken", "items("+imageFields+")").
			Pages(ctx, func(page *compute.ImageList) error {
				found = append(found, page.Items...)
				return listed.Next(page.NextPageToken, len(page.Items))
			})
		return found, wrap("list images of project "+project, err)
	}
}
