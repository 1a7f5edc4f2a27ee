package gce

import (
	"context"
	"slices"

	"google.golang.org/api/compute/v1"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// Leftovers implements drivers.Sweeper: disks with ownership labels, in one list.
func (c *Cloud) Leftovers(ctx context.Context) ([]resources.Leftover, error) {
	disks, err := c.api.disks(ctx, ownedFilter)
	if err != nil {
		return nil, err
	}
	var found []resources.Leftover
	for _, d := range disks {
		if l := leftoverOf(d); slices.Contains(c.zones, base(d.Zone)) && l.Marks.Installation != "" {
			found = append(found, l)
		}
	}
	return found, nil
}

func leftoverOf(d *compute.Disk) resources.Leftover {
	l := resources.Leftover{Type: resources.LeftoverVolume, ID: place{base(d.Zone), d.Name}.String(), Name: d.Name, Marks: marksOf(d.Labels, place{base(d.Zone), d.Name})}
	if len(d.Users) > 0 {
		l.InUse, l.Server = true, place{base(d.Zone), base(d.Users[0])}.String()
	}
	return l
}

// DeleteLeftover implements drivers.Sweeper. It reads the disk again before it deletes it: npctl must not delete a disk
// that has lost its ownership labels since the listing, or that is in use now.
func (c *Cloud) DeleteLeftover(ctx context.Context, l resources.Leftover) error {
	at, ok := placeOf(l.ID)
	if l.Type != resources.LeftoverVolume || !ok {
		return drivers.Rejectf("delete leftover %s: this driver creates no %s with such an ID", l.ID, l.Type)
	}
	d, err := c.api.disk(ctx, at)
	if err != nil {
		return cloudkit.UnlessMissing(err)
	}
	now := leftoverOf(d)
	if err := cloudkit.CheckLeftover(l, now); err != nil {
		return err
	}
	return cloudkit.UnlessMissing(c.api.deleteDisk(ctx, at))
}
