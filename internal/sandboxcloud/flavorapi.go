package sandboxcloud

import (
	"net/http"
	"slices"
	"strconv"
)

func (c *call) flavorView(f *flavor) view {
	v := view{
		"id": f.ID, "name": f.Name, "ram": f.RAM, "disk": f.Disk, "vcpus": f.VCPUs, "swap": "", "rxtx_factor": 1.0,
		"OS-FLV-EXT-DATA:ephemeral": 0, "OS-FLV-DISABLED:disabled": false, "os-flavor-access:is_public": true,
		"links": c.links("flavors", f.ID),
	}
	if c.micro >= 55 {
		v["description"] = nil
	}
	if c.micro >= 61 {
		v["extra_specs"] = view{}
	}
	if c.micro >= 75 {
		v["swap"] = 0
	}
	return v
}

func listFlavors(c *call) (*answer, error) {
	return c.answerFlavors(func(f *flavor) any { return c.flavorView(f) })
}

func listFlavorsBriefly(c *call) (*answer, error) {
	return c.answerFlavors(func(f *flavor) any {
		v := view{"id": f.ID, "name": f.Name, "links": c.links("flavors", f.ID)}
		if c.micro >= 55 {
			v["description"] = nil
		}
		return v
	})
}

func (c *call) answerFlavors(show func(*flavor) any) (*answer, error) {
	limit, err := c.limit(c.cloud.options.PageLimit, c.cloud.options.PageLimit)
	if err != nil {
		return nil, err
	}
	minRAM, minDisk := c.number("minRam"), c.number("minDisk")
	var found []*flavor
	err = c.view(func(w *cloudState) error {
		for f := range w.Flavors.oldestFirst(c.now) {
			if f.RAM >= minRAM && f.Disk >= minDisk {
				found = append(found, f) // flavors never change
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if marker := c.query.Get("marker"); marker != "" {
		at := slices.IndexFunc(found, func(f *flavor) bool { return f.ID == marker })
		if at < 0 {
			return nil, badRequest("marker [%s] not found", marker)
		}
		found = found[at+1:]
	}
	views := []any{}
	for _, f := range found[:min(limit, len(found))] {
		views = append(views, show(f))
	}
	body := view{"flavors": views}
	if len(views) == limit && limit > 0 {
		body["flavors_links"] = []any{linkView{"next", c.nextURL(c.base()+c.request.URL.Path, found[limit-1].ID)}}
	}
	return ok(body)
}

func (c *call) number(name string) int64 {
	n, err := strconv.ParseInt(c.query.Get(name), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (c *call) findFlavor(w *cloudState) (*flavor, error) {
	f, found := w.Flavors.get(c.id(), c.now)
	if !found {
		return nil, refuse(http.StatusNotFound, "Flavor %s could not be found.", c.id())
	}
	return f, nil
}

func showFlavor(c *call) (*answer, error) {
	var v view
	err := c.view(func(w *cloudState) error {
		f, err := c.findFlavor(w)
		if err == nil {
			v = c.flavorView(f)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return ok(view{"flavor": v})
}

func showFlavorSpecs(c *call) (*answer, error) {
	err := c.view(func(w *cloudState) error {
		_, err := c.findFlavor(w)
		return err
	})
	if err != nil {
		return nil, err
	}
	return ok(view{"extra_specs": view{}})
}
