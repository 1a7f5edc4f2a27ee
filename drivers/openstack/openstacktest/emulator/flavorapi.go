package emulator

import (
	"net/http"
	"slices"
)

func (cv computeViews) flavorView(f *flavor) view {
	v := view{
		"id": f.ID, "name": f.Name, "ram": f.RAM, "disk": f.Disk, "vcpus": f.VCPUs, "swap": "", "rxtx_factor": 1.0,
		"OS-FLV-EXT-DATA:ephemeral": 0, "OS-FLV-DISABLED:disabled": false, "os-flavor-access:is_public": true,
		"links": cv.links("flavors", f.ID),
	}
	if cv.micro >= 55 {
		v["description"] = nil
	}
	if cv.micro >= 61 {
		v["extra_specs"] = view{}
	}
	if cv.micro >= 75 {
		v["swap"] = 0
	}
	return v
}

func listFlavors(c *call) (*answer, error) {
	return c.answerFlavors(func(f *flavor) any { return c.views().flavorView(f) })
}

func listFlavorsBriefly(c *call) (*answer, error) {
	return c.answerFlavors(func(f *flavor) any {
		v := view{"id": f.ID, "name": f.Name, "links": c.views().links("flavors", f.ID)}
		if c.micro >= 55 {
			v["description"] = nil
		}
		return v
	})
}

func (c *call) answerFlavors(show func(*flavor) any) (*answer, error) {
	limit, err := c.query.limit(c.cloud.options.PageLimit, c.cloud.options.PageLimit)
	if err != nil {
		return nil, err
	}
	minRAM, minDisk := c.query.number("minRam"), c.query.number("minDisk")
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
		body["flavors_links"] = []any{linkView{"next", c.query.nextURL(c.base()+c.request.URL.Path, found[limit-1].ID)}}
	}
	return ok(body)
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
			v = c.views().flavorView(f)
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
