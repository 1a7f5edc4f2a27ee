package sandboxcloud

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// order is a validated request: all objects that it names exist.
type order struct {
	in       *serverRequest
	flavor   *flavor
	image    *image // nil if the server boots from an existing volume
	boot     *bootVolume
	networks []nicOrder
	groups   []*securityGroup
	min, max int64
	first    *server // the first server created
	password string
}

// newOrder finds all objects that the request names.
func (c *call) newOrder(w *cloudState, in *serverRequest) (*order, error) {
	o := &order{in: in, password: in.Server.AdminPass}
	var err error
	if o.min, err = in.Server.MinCount.number(1); err != nil {
		return nil, err
	}
	if o.max, err = in.Server.MaxCount.number(o.min); err != nil {
		return nil, err
	}
	if o.min > o.max {
		return nil, badRequest("min_count must be <= max_count")
	}
	if o.min < 1 {
		return nil, badRequest("Invalid input for field/attribute min_count. Value: %d. %d is less than the minimum of 1", o.min, o.min)
	}
	if zone := in.Server.Zone; zone != "" && zone != "nova" && !slices.Contains(w.Zones, zone) {
		return nil, badRequest("The requested availability zone is not available")
	}
	for _, step := range []func(*cloudState, *order) error{c.orderFlavor, c.orderImage, c.orderBoot, c.orderKey, c.orderGroups, c.orderNetworks} {
		if err := step(w, o); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func (c *call) orderFlavor(w *cloudState, o *order) error {
	ref := string(o.in.Server.Flavor)
	ref = ref[strings.LastIndexByte(ref, '/')+1:] // it may be a link
	f, found := w.Flavors.get(ref, c.now)
	if !found {
		return badRequest("Flavor %s could not be found.", ref)
	}
	o.flavor = f
	return nil
}

func (c *call) orderImage(w *cloudState, o *order) error {
	ref := o.in.Server.Image
	if ref == "" {
		if len(o.in.Server.Blocks) == 0 {
			return badRequest("Invalid imageRef provided.")
		}
		return nil
	}
	i, err := c.bootable(w, ref, o.flavor, true)
	o.image = i
	return err
}

// bootable finds an image from which a server may boot.
func (c *call) bootable(w *cloudState, id string, f *flavor, local bool) (*image, error) {
	i, found := w.Images.get(id, c.now)
	switch {
	case !found || !i.visible(c.who.project):
		return nil, badRequest("Can not find requested image")
	case i.Status != "active":
		return nil, badRequest("Image %s is not active.", id)
	case i.MinRAM > f.RAM:
		return nil, badRequest("Flavor's memory is too small for requested image.")
	case local && f.Disk > 0 && i.MinDisk > f.Disk:
		return nil, badRequest("Flavor's disk is smaller than the minimum size specified in image metadata. Flavor disk is %d bytes, minimum size is %d bytes.",
			f.Disk<<30, i.MinDisk<<30)
	case local && f.Disk > 0 && i.Size != nil && *i.Size > f.Disk<<30:
		return nil, badRequest("Flavor's disk is too small for requested image. Flavor disk is %d bytes, image is %d bytes.", f.Disk<<30, *i.Size)
	}
	return i, nil
}

func (c *call) orderKey(w *cloudState, o *order) error {
	name := o.in.Server.Key
	if name == nil || *name == "" {
		return nil
	}
	for k := range w.Keys.oldestFirst(c.now) {
		if k.User == c.who.user && k.Name == *name {
			return nil
		}
	}
	return badRequest("Invalid key_name provided.")
}

func (c *call) orderGroups(w *cloudState, o *order) error {
	refs := o.in.Server.Groups
	if len(refs) == 0 {
		refs = append(refs, struct {
			Name string `json:"name"`
		}{"default"})
	}
	for _, ref := range refs {
		g, err := w.findGroup(c.who.project, ref.Name, c.now)
		if err != nil {
			return badRequest("Unable to find security_group with name or id '%s'", ref.Name)
		}
		o.groups = append(o.groups, g)
	}
	return nil
}

// checkServerQuota returns quota errors with nova's text.
func (c *call) checkServerQuota(w *cloudState, o *order) error {
	q, u := w.quota(c.who.project), w.use(c.who.project)
	var over, requested, used, allowed []string
	check := func(name string, more, have, limit int64) {
		if limit >= 0 && have+more > limit {
			over, requested = append(over, name), append(requested, fmt.Sprint(more))
			used, allowed = append(used, fmt.Sprint(have)), append(allowed, fmt.Sprint(limit))
		}
	}
	if err := c.checkPortQuota(w, o); err != nil {
		return err
	}
	check("cores", o.max*o.flavor.VCPUs, u.cores, q.Cores)
	check("instances", o.max, u.instances, q.Instances)
	check("ram", o.max*o.flavor.RAM, u.ram, q.RAM)
	if over != nil {
		names := strings.Join(over, ", ")
		return refuse(http.StatusForbidden, "Quota exceeded for %s: Requested %s, but already used %s of %s %s",
			names, strings.Join(requested, ", "), strings.Join(used, ", "), strings.Join(allowed, ", "), names)
	}
	return nil
}

func (c *call) checkPortQuota(w *cloudState, o *order) error {
	var more int64
	for _, n := range o.networks {
		if n.port == nil {
			more += o.max
		}
	}
	q, u := w.quota(c.who.project), w.use(c.who.project)
	if q.Ports >= 0 && u.ports+more > q.Ports {
		return refuse(http.StatusForbidden, "Maximum number of ports exceeded")
	}
	return nil
}
