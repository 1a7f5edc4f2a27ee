package ibmvpc

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// Leftovers implements drivers.Sweeper: floating IPs, volumes and objects with names of records.
func (c *Cloud) Leftovers(ctx context.Context) ([]resources.Leftover, error) {
	addresses, err := cloudkit.LeftoversOf(floatingIP.leftover)(list[floatingIP](ctx, c.api, "list floating IPs", "/floating_ips", nil, "floating_ips"))
	if err != nil {
		return nil, err
	}
	volumes, err := cloudkit.LeftoversOf(volume.leftover)(list[volume](ctx, c.api, "list volumes", "/volumes", nil, "volumes"))
	if err != nil {
		return nil, err
	}
	objects, err := c.leftObjects(ctx)
	objects = slices.DeleteFunc(objects, func(l resources.Leftover) bool { return l.Marks.Installation == "" })
	return slices.Concat(addresses, volumes, objects), err
}

func (f floatingIP) leftover() resources.Leftover {
	l := resources.Leftover{Type: resources.LeftoverFloatingIP, ID: f.ID, Name: f.Name, Marks: drivers.OnlyOf(drivers.OfServer, recordOf(f.Name)), InUse: f.Target != nil}
	if f.Target != nil { // https://…/instances/ID/network_interfaces/ID
		_, after, _ := strings.Cut(f.Target.Href, "/instances/")
		l.Server, _, _ = strings.Cut(after, "/")
	}
	return l
}

func (v volume) leftover() resources.Leftover {
	l := resources.Leftover{Type: resources.LeftoverVolume, ID: v.ID, Name: v.Name, Marks: drivers.OnlyOf(drivers.OfServer, recordOf(v.Name)), InUse: len(v.Attachments) > 0}
	if l.InUse {
		l.Server = v.Attachments[0].Instance.ID
	}
	return l
}

// leftObjects lists the objects of the bucket. Those of an existing image are in use, except its file after the import.
func (c *Cloud) leftObjects(ctx context.Context) ([]resources.Leftover, error) {
	if c.bucket == nil {
		return nil, nil
	}
	objects, err := c.bucket.everything(ctx, namePrefix+kindLetters[resources.KindUpload]+"-")
	if err != nil || len(objects) == 0 {
		return nil, err
	}
	images, err := list[cloudImage](ctx, c.api, "list images", "/images", url.Values{"visibility": {"private"}}, "images")
	if err != nil {
		return nil, err
	}
	status := map[string]string{}
	for _, i := range images {
		status[i.Name] = i.Status
	}
	var all []resources.Leftover
	for _, o := range objects {
		name, _, _ := strings.Cut(o.Key, ".")
		now, exists := status[name]
		isMeta := strings.HasPrefix(o.Key, name+metaInfix)
		all = append(all, resources.Leftover{Type: resources.LeftoverObject, ID: objectID(o), Name: name, Marks: recordOf(name), InUse: exists && (isMeta || now == "pending")})
	}
	return all, nil
}

// objectID is the key of an object; that of an upload that is not complete has the upload behind it.
func objectID(o object) string {
	if o.Upload == "" {
		return o.Key
	}
	return o.Key + "?" + o.Upload
}

// DeleteLeftover implements drivers.Sweeper. It reads the object again before it deletes it: npctl must not delete an object
// that was renamed since the listing, or that is in use now.
func (c *Cloud) DeleteLeftover(ctx context.Context, l resources.Leftover) error {
	now, found, remove, err := c.readLeftover(ctx, l)
	if err != nil || !found {
		return err
	}
	if err := cloudkit.CheckLeftover(l, now); err != nil {
		return err
	}
	return remove()
}

func (c *Cloud) readLeftover(ctx context.Context, l resources.Leftover) (now resources.Leftover, found bool, remove func() error, err error) {
	var path string
	switch l.Type {
	case resources.LeftoverFloatingIP:
		var f floatingIP
		path = "/floating_ips/" + url.PathEscape(l.ID)
		found, err = c.api.get(ctx, "read floating IP "+l.ID, path, &f)
		now = f.leftover()
	case resources.LeftoverVolume:
		var v volume
		path = "/volumes/" + url.PathEscape(l.ID)
		found, err = c.api.get(ctx, "read volume "+l.ID, path, &v)
		now = v.leftover()
	case resources.LeftoverObject:
		key, upload, _ := strings.Cut(l.ID, "?")
		all, err := c.leftObjects(ctx)
		i := slices.IndexFunc(all, func(one resources.Leftover) bool { return one.ID == l.ID })
		if err != nil || i < 0 {
			return now, false, nil, err
		}
		return all[i], true, func() error { return c.bucket.remove(ctx, object{Key: key, Upload: upload}) }, nil
	default:
		err = fmt.Errorf("%w: delete leftover %s: %q is not a kind that this driver creates", drivers.ErrRejected, l.ID, l.Type)
	}
	return now, found, func() error { return c.api.remove(ctx, "delete "+l.Type+" "+l.ID, path) }, err
}
