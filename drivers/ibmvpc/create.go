package ibmvpc

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// Create implements drivers.Cloud with one request for each profile that it tries; cached lists resolve the names. The name
// of the instance is unique, so a repetition finds the first instance.
func (c *Cloud) Create(ctx context.Context, spec drivers.Spec) (resources.Instance, error) {
	doing := "create instance " + spec.Hostname
	name, err := objectName(spec.Marks)
	if err != nil {
		return resources.Instance{}, fmt.Errorf("%s: %w", doing, err)
	}
	if found, done, err := cloudkit.Earlier(spec, func() (resources.Instance, bool, error) { return c.find(ctx, spec, name) }); done {
		return found, err
	}
	o, err := c.offer(ctx, spec.Config)
	if err != nil {
		return resources.Instance{}, drivers.Unsent(fmt.Errorf("%s: %w", doing, err))
	}
	request, err := c.request(spec, o, name)
	if err != nil {
		return resources.Instance{}, drivers.Unsent(fmt.Errorf("%s: %w", doing, err))
	}
	return drivers.CreateFirst(&c.shortages, request.Zone.Name, o.profiles, func(p profile) string { return p.Name }, func(p profile) (resources.Instance, error) {
		request.Profile = byName{p.Name}
		return c.post(ctx, spec, fmt.Sprintf("%s (%s)", doing, p.Name), request)
	})
}

// post requests an instance of one profile.
func (c *Cloud) post(ctx context.Context, spec drivers.Spec, doing string, request newInstance) (resources.Instance, error) {
	var made instance
	err := c.api.call(ctx, doing, http.MethodPost, "/instances", nil, request, &made)
	if isUsedName(err) {
		if found, ok, again := c.find(ctx, spec, request.Name); again == nil && ok {
			return found, nil
		}
	}
	if err != nil {
		return resources.Instance{}, err
	}
	one := c.convert(made, request.BootVolume.Volume.UserTags, "")
	one.Name, one.Marks = spec.Hostname, spec.Marks
	return one, nil
}

// find searches by name for the instance that an earlier Create with this ID may have created.
func (c *Cloud) find(ctx context.Context, spec drivers.Spec, name string) (resources.Instance, bool, error) {
	found, err := list[instance](ctx, c.api, "find instance "+name, "/instances", url.Values{"name": {name}}, "instances")
	if err != nil || len(found) == 0 || found[0].Name != name || found[0].Status == "deleting" {
		return resources.Instance{}, false, err
	}
	one := c.convert(found[0], nil, "")
	one.Name, one.Marks = spec.Hostname, spec.Marks
	return one, true, nil
}

// request returns the request without the profile.
func (c *Cloud) request(spec drivers.Spec, o offer, name string) (newInstance, error) {
	network, err := o.subnetIn(spec.Zone)
	if err != nil {
		return newInstance{}, err
	}
	tags, err := instanceTags(spec, o.settings)
	if err != nil {
		return newInstance{}, err
	}
	s := o.settings
	return newInstance{
		Name: name, VPC: byID{c.vpc.ID}, Zone: byName{network.Zone.Name}, Image: byID{spec.ImageID}, Keys: o.keys, UserData: s.UserData,
		ResourceGroup:    c.settings.resourceGroup(),
		BootVolume:       bootVolume{Delete: true, Volume: newVolume{Name: name, Profile: byName{s.VolumeProfile}, Capacity: s.VolumeSize, UserTags: tags}},
		PrimaryInterface: newNetworkInterface{Name: interfaceName(s.poolSettings), Subnet: byID{network.ID}, SecurityGroups: o.securityGroups},
	}, nil
}

func (s providerSettings) resourceGroup() *byID {
	if s.ResourceGroup == "" {
		return nil
	}
	return &byID{s.ResourceGroup}
}

// The name of the network interface, which each list of instances contains, says which address the instance needs.
const (
	interfacePublic  = "npctl-public"
	interfacePrivate = "npctl-private"
	interfaceBoth    = "npctl-both" // has a floating IP, but npctl connects to the private address
)

func interfaceName(s poolSettings) string {
	switch {
	case s.PublicIPv4 && s.UseInternalIP:
		return interfaceBoth
	case s.PublicIPv4:
		return interfacePublic
	default:
		return interfacePrivate
	}
}

func (i instance) needsFloatingIP() bool {
	return recordOf(i.Name).Installation != "" && (i.Interface.Name == interfacePublic || i.Interface.Name == interfaceBoth)
}
