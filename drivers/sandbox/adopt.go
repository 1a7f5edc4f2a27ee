package sandbox

import (
	"context"
	"maps"
	"strings"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// adopter is an imageStore in which npctl can adopt servers and images.
type adopter struct{ *imageStore }

var _ drivers.Adopter = (*adopter)(nil)

// LookUp implements drivers.Adopter.
func (a *adopter) LookUp(ctx context.Context, kind resources.Kind, id string) (object resources.ExistingObject, found bool, err error) {
	err = a.read(ctx, opList, func(f *fleet) error {
		if kind == resources.KindUpload {
			if i := f.Images[id]; i != nil && !i.Public {
				object, found = i.existing(), true
			}
			return nil
		}
		now := time.Now()
		s := f.Instances[id]
		if s == nil || s.isGone(now) {
			return nil
		}
		object, found = s.existing(now), true
		object.Settings = map[string][]string{"flavor": {s.Flavor}, "networks": s.Networks, "availability_zones": {s.Zone}}
		object.BootedOf = s.Image
		return nil
	})
	return object, found, err
}

func (s *server) existing(now time.Time) resources.ExistingObject {
	return resources.ExistingObject{Instance: s.instance(now), Program: cloudkit.NodepoolText(s.Metadata)}
}

func (i *image) existing() resources.ExistingObject {
	return resources.ExistingObject{Image: i.remote(), Program: cloudkit.NodepoolText(i.Properties)}
}

// ListOthers implements drivers.Adopter.
func (a *adopter) ListOthers(ctx context.Context) (list []resources.ExistingObject, err error) {
	err = a.read(ctx, opList, func(f *fleet) error {
		now := time.Now()
		for _, s := range f.servers(now) {
			if s.owner().Installation == "" {
				list = append(list, s.existing(now))
			}
		}
		for _, i := range f.sorted() {
			if i.owner().Installation == "" && !i.Public {
				list = append(list, i.existing())
			}
		}
		return nil
	})
	return list, err
}

// Adopt implements drivers.Adopter.
func (a *adopter) Adopt(ctx context.Context, id string, marks, replaced resources.OwnerTags) error {
	return a.call(ctx, opTag, id, func(f *fleet, _ *fault) error {
		what, tags := f.tagsOf(marks.Kind, id)
		if tags == nil {
			return drivers.Rejectf("there is no %s with the ID %s", what, id)
		}
		if err := cloudkit.CheckAdoptable(what, id, drivers.DecodeTags(*tags), marks, replaced); err != nil {
			return err
		}
		*tags = withoutOwner(*tags)
		maps.Copy(*tags, drivers.EncodeTags(marks))
		return nil
	})
}

// Release implements drivers.Adopter.
func (a *adopter) Release(ctx context.Context, id string, marks resources.OwnerTags) error {
	return a.call(ctx, opTag, id, func(f *fleet, _ *fault) error {
		what, tags := f.tagsOf(marks.Kind, id)
		if tags == nil {
			return nil
		}
		if found := drivers.DecodeTags(*tags); found != (resources.OwnerTags{}) {
			if err := drivers.CheckOwner(what, id, found, marks); err != nil {
				return err
			}
		}
		*tags = withoutOwner(*tags)
		return nil
	})
}

// tagsOf returns the tags of a server, or of an image of the project; nil if there is none.
func (f *fleet) tagsOf(kind resources.Kind, id string) (what string, tags *map[string]string) {
	if kind == resources.KindUpload {
		if i := f.Images[id]; i != nil && !i.Public {
			return "image", &i.Properties
		}
		return "image", nil
	}
	if s := f.Instances[id]; s != nil {
		return "server", &s.Metadata
	}
	return "server", nil
}

// withoutOwner returns a copy of tags without those of npctl and Nodepool.
func withoutOwner(tags map[string]string) map[string]string {
	others := map[string]string{}
	for key, value := range tags {
		if !strings.HasPrefix(key, drivers.TagPrefix) && !strings.HasPrefix(key, cloudkit.NodepoolPrefix) {
			others[key] = value
		}
	}
	return others
}
