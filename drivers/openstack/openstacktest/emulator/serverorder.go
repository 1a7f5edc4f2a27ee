package emulator

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// order is the creation of servers by one request, within one change of the state. After find, all objects that the
// request names exist.
type order struct {
	scope
	w         *cloudState
	micro     micro
	buildTime time.Duration

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

// find finds all objects that the request names.
func (o *order) find() error {
	in := &o.in.Server
	var err error
	if o.min, err = in.MinCount.number(1); err != nil {
		return err
	}
	if o.max, err = in.MaxCount.number(o.min); err != nil {
		return err
	}
	if o.min > o.max {
		return badRequest("min_count must be <= max_count")
	}
	if o.min < 1 {
		return badRequest("Invalid input for field/attribute min_count. Value: %d. %d is less than the minimum of 1", o.min, o.min)
	}
	if zone := in.Zone; zone != "" && zone != "nova" && !slices.Contains(o.w.Zones, zone) {
		return badRequest("The requested availability zone is not available")
	}
	for _, step := range []func() error{o.selectFlavor, o.selectImage, o.selectBoot, o.selectKey, o.selectGroups, o.selectNetworks} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (o *order) selectFlavor() error {
	ref := string(o.in.Server.Flavor)
	ref = ref[strings.LastIndexByte(ref, '/')+1:] // it may be a link
	f, found := o.w.Flavors.get(ref, o.now)
	if !found {
		return badRequest("Flavor %s could not be found.", ref)
	}
	o.flavor = f
	return nil
}

func (o *order) selectImage() error {
	ref := o.in.Server.Image
	if ref == "" {
		if len(o.in.Server.Blocks) == 0 {
			return badRequest("Invalid imageRef provided.")
		}
		return nil
	}
	i, err := o.bootable(ref, o.flavor, true)
	o.image = i
	return err
}

// bootable finds an image from which a server may boot.
func (o *order) bootable(id string, f *flavor, local bool) (*image, error) {
	i, found := o.w.Images.get(id, o.now)
	switch {
	case !found || !i.visible(o.who.project):
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

func (o *order) selectKey() error {
	name := o.in.Server.Key
	if name == nil || *name == "" {
		return nil
	}
	for k := range o.w.Keys.oldestFirst(o.now) {
		if k.User == o.who.user && k.Name == *name {
			return nil
		}
	}
	return badRequest("Invalid key_name provided.")
}

func (o *order) selectGroups() error {
	refs := o.in.Server.Groups
	if len(refs) == 0 {
		refs = append(refs, struct {
			Name string `json:"name"`
		}{"default"})
	}
	for _, ref := range refs {
		g, err := o.w.findGroup(o.who.project, ref.Name, o.now)
		if err != nil {
			return badRequest("Unable to find security_group with name or id '%s'", ref.Name)
		}
		o.groups = append(o.groups, g)
	}
	return nil
}

// checkServerQuota returns quota errors with nova's text.
func (o *order) checkQuota() error {
	q, u := o.w.quota(o.who.project), o.w.use(o.who.project)
	var over, requested, used, allowed []string
	check := func(name string, more, have, limit int64) {
		if limit >= 0 && have+more > limit {
			over, requested = append(over, name), append(requested, fmt.Sprint(more))
			used, allowed = append(used, fmt.Sprint(have)), append(allowed, fmt.Sprint(limit))
		}
	}
	if err := o.checkPortQuota(); err != nil {
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

func (o *order) checkPortQuota() error {
	var more int64
	for _, n := range o.networks {
		if n.port == nil {
			more += o.max
		}
	}
	q, u := o.w.quota(o.who.project), o.w.use(o.who.project)
	if q.Ports >= 0 && u.ports+more > q.Ports {
		return refuse(http.StatusForbidden, "Maximum number of ports exceeded")
	}
	return nil
}
