package sandbox

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// fleetVersion is the version of the file. Version 1 was that of an emulated OpenStack.
const fleetVersion = 2

// fleet is the content of the file.
type fleet struct {
	Version   int                `json:"version"`
	Instances map[string]*server `json:"instances,omitempty"` // by ID
	Images    map[string]*image  `json:"images,omitempty"`    // by ID
	Seeded    map[string]bool    `json:"seeded,omitempty"`    // blocks of which the objects have been created
	Calls     map[string]int     `json:"calls,omitempty"`     // that have matched a fault, by the fault
	Addresses int                `json:"addresses,omitempty"` // that servers have had
}

func newFleet() *fleet {
	return &fleet{Version: fleetVersion, Instances: map[string]*server{}, Images: map[string]*image{}, Seeded: map[string]bool{}, Calls: map[string]int{}}
}

// server is an instance.
type server struct {
	ID       string                    `json:"id"`
	Name     string                    `json:"name"`
	Metadata map[string]string         `json:"metadata,omitempty"` // with the ownership tags
	Image    string                    `json:"image,omitempty"`
	Flavor   string                    `json:"flavor,omitempty"`
	Amounts  resources.ResourceAmounts `json:"amounts"`
	Zone     string                    `json:"zone,omitempty"`
	Networks []string                  `json:"networks,omitempty"`
	Address  string                    `json:"address,omitempty"`
	Created  time.Time                 `json:"created"`
	Ready    time.Time                 `json:"ready"` // time at which the build ends
	Fault    string                    `json:"fault,omitempty"`
	// FaultKind is that of Fault.
	FaultKind resources.FaultKind `json:"fault_kind,omitempty"`
	// Gone is the time at which the deletion ends; zero without a deletion.
	Gone time.Time `json:"gone,omitzero"`
}

// image is an image without its content.
type image struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"`
	Properties map[string]string `json:"properties,omitempty"` // with the ownership tags
	Tags       []string          `json:"tags,omitempty"`
	Public     bool              `json:"public,omitempty"`
	Pending    bool              `json:"pending,omitempty"` // its content has not arrived
	Format     string            `json:"format,omitempty"`
	Size       int64             `json:"size"`
	SHA256     string            `json:"sha256,omitempty"`
	Created    time.Time         `json:"created"`
}

func (s *server) owner() resources.OwnerTags {
	return drivers.OwnerOf(s.Metadata, drivers.OfServer, s.ID)
}

func (i *image) owner() resources.OwnerTags {
	return drivers.OwnerOf(i.Properties, drivers.OfImage, i.ID)
}

// removeDeleted removes the servers after the end of their deletion.
func (f *fleet) removeDeleted(now time.Time) {
	maps.DeleteFunc(f.Instances, func(_ string, s *server) bool { return s.isGone(now) })
}

func (s *server) isGone(now time.Time) bool { return !s.Gone.IsZero() && !now.Before(s.Gone) }

// servers returns the servers by the time of their creation.
func (f *fleet) servers(now time.Time) []*server {
	all := slices.DeleteFunc(slices.Collect(maps.Values(f.Instances)), func(s *server) bool { return s.isGone(now) })
	slices.SortFunc(all, func(a, b *server) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return all
}

// ofRecord returns the server of a record, or nil.
func (f *fleet) ofRecord(m resources.OwnerTags) *server {
	for _, s := range f.Instances {
		if s.owner().SameRecord(m) && s.Gone.IsZero() {
			return s
		}
	}
	return nil
}

// sorted returns the images, the newest first.
func (f *fleet) sorted() []*image {
	return slices.SortedFunc(maps.Values(f.Images), func(a, b *image) int {
		if c := b.Created.Compare(a.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
}

func (s *server) instance(now time.Time) resources.Instance {
	i := resources.Instance{ID: s.ID, Name: s.Name, Marks: s.owner(), Status: resources.StatusPending, Zone: s.Zone, Flavor: s.Flavor, Resources: s.Amounts,
		Created: s.Created}
	switch {
	case !s.Gone.IsZero():
		i.Status = resources.StatusDeleting
	case now.Before(s.Ready):
	case s.Fault != "":
		i.Status, i.Fault, i.FaultKind = resources.StatusFailed, s.Fault, s.FaultKind
	default:
		i.Status = resources.StatusReady
		i.Addresses = resources.Addresses{Interface: s.Address, PrivateIPv4: s.Address}
	}
	return i
}

func (i *image) remote() resources.RemoteImage {
	status := resources.StatusReady
	if i.Pending {
		status = resources.StatusPending
	}
	return resources.RemoteImage{ID: i.ID, Name: i.Name, Marks: i.owner(), Status: status, Format: i.Format, Size: i.Size, SHA256: i.SHA256,
		Properties: maps.Clone(i.Properties), Created: i.Created}
}
