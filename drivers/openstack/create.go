package openstack

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strconv"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// Create implements drivers.Cloud with one POST; cached lists resolve the names.
func (c *Cloud) Create(ctx context.Context, spec drivers.Spec) (resources.Instance, error) {
	if found, done, err := cloudkit.Earlier(spec, func() (resources.Instance, bool, error) { return c.find(ctx, spec) }); done {
		return found, err
	}
	o, err := c.offers.resolve(ctx, spec.Config)
	if err != nil {
		return resources.Instance{}, drivers.Unsent(fmt.Errorf("create server %s: %w", spec.Hostname, err))
	}
	values := serverMetadata(spec, o.settings)
	if err := checkMetadata(values); err != nil {
		return resources.Instance{}, drivers.Unsent(fmt.Errorf("create server %s: %w", spec.Hostname, err))
	}
	ports, err := c.network.ports(ctx, spec, o)
	if err != nil {
		return resources.Instance{}, err
	}
	id, err := c.postServer(ctx, spec, o, values, ports)
	if err != nil {
		if len(ports) > 0 && drivers.IsNothingDone(err) {
			err = errors.Join(err, c.network.deletePorts(context.WithoutCancel(ctx), ports))
		}
		return resources.Instance{}, err
	}
	return c.accepted(id, spec, o), nil
}

// find searches for the server that an earlier Create with this ID may have created: one list, filtered by name,
// since all versions of Nova support that filter. The ownership tags decide.
func (c *Cloud) find(ctx context.Context, spec drivers.Spec) (resources.Instance, bool, error) {
	query := url.Values{"name": {"^" + regexp.QuoteMeta(spec.Hostname) + "$"}}
	found, err := all(ctx, listing{client: c.compute, path: "servers/detail", query: query, key: "servers", doing: "find server " + spec.Hostname},
		func(s server) string { return s.ID })
	if err != nil {
		return resources.Instance{}, false, err
	}
	for _, s := range found {
		if !ownerOf(s.Metadata).SameRecord(spec.Marks) || statusOf(s) == resources.StatusDeleting {
			continue
		}
		instances, err := c.instances(ctx, []server{s})
		if err != nil {
			return resources.Instance{}, false, err
		}
		return instances[0], true, nil
	}
	return resources.Instance{}, false, nil
}

// serverMetadata returns the user's properties, overridden by the metadata that List needs and by the ownership tags.
func serverMetadata(spec drivers.Spec, settings labelSettings) map[string]string {
	values := map[string]string{}
	maps.Copy(values, settings.InstanceProperties)
	for key, value := range spec.Properties {
		values[key] = cloudkit.CutValue(value, maxMetadata)
	}
	if settings.AutoFloatingIP {
		values[keyFloating] = "true"
	}
	if settings.CreatePorts {
		values[keyPorts] = "true"
	}
	if settings.BootFromVolume {
		values[keyVolumeGB] = strconv.FormatInt(settings.VolumeSize, 10)
	}
	choice := addressChoice{internal: settings.UseInternalIP, version: int(settings.IPVersion), network: settings.InterfaceNetwork}
	if text := choice.text(); text != "" {
		values[keyInterface] = text
	}
	maps.Copy(values, drivers.EncodeTags(spec.Marks))
	return values
}

func (c *Cloud) postServer(ctx context.Context, spec drivers.Spec, o offer, values map[string]string, ports []port) (string, error) {
	opts := servers.CreateOpts{
		Name:             spec.Hostname,
		FlavorRef:        o.flavor.ID,
		ImageRef:         spec.ImageID,
		AvailabilityZone: spec.Zone,
		Metadata:         values,
		ConfigDrive:      o.settings.ConfigDrive,
		Networks:         c.attachments(o, ports),
	}
	if len(ports) == 0 { // existing ports already have their security groups
		opts.SecurityGroups = o.groups
	}
	if text := o.settings.UserData; text != "" {
		// gophercloud does not encode text that is valid base64, so it receives encoded text.
		opts.UserData = []byte(base64.StdEncoding.EncodeToString([]byte(text)))
	}
	if c.microversion >= withTags {
		opts.Tags = append([]string{markTag}, o.settings.Tags...)
	}
	if o.settings.BootFromVolume {
		opts.ImageRef = ""
		opts.BlockDevice = []servers.BlockDevice{c.bootVolume(spec.ImageID, o.settings)}
	}
	body, err := keypairs.CreateOptsExt{CreateOptsBuilder: opts, KeyName: o.settings.KeyName}.ToServerCreateMap()
	if err != nil {
		return "", fmt.Errorf("create server %s: %w: %w", spec.Hostname, drivers.ErrRejected, err)
	}
	var answer struct {
		Server struct {
			ID string `json:"id"`
		} `json:"server"`
	}
	_, err = c.compute.Post(ctx, c.compute.ServiceURL("servers"), body, &answer, nil)
	if err != nil {
		if err = wrap("create server "+spec.Hostname, err); isStatus(err, http.StatusBadRequest) {
			c.names.drop()
		}
		return "", err
	}
	return answer.Server.ID, nil
}

// attachments returns the networks of a server in gophercloud's format.
func (c *Cloud) attachments(o offer, ports []port) any {
	var list []servers.Network
	for _, p := range ports {
		list = append(list, servers.Network{Port: p.ID})
	}
	if len(list) > 0 {
		return list
	}
	for _, n := range o.networks {
		list = append(list, servers.Network{UUID: n.ID})
	}
	if len(list) == 0 && c.microversion >= withAutoNetworks {
		return "auto"
	}
	return list
}

func (c *Cloud) bootVolume(image string, settings labelSettings) servers.BlockDevice {
	device := servers.BlockDevice{
		SourceType:          servers.SourceImage,
		UUID:                image,
		DestinationType:     servers.DestinationVolume,
		DeleteOnTermination: true,
		VolumeSize:          int(settings.VolumeSize),
	}
	if c.microversion >= withVolumeType {
		device.VolumeType = settings.VolumeType
	}
	return device
}

// accepted returns the instance as of the cloud's response.
func (c *Cloud) accepted(id string, spec drivers.Spec, o offer) resources.Instance {
	return resources.Instance{
		ID:        id,
		Name:      spec.Hostname,
		Marks:     spec.Marks,
		Status:    resources.StatusPending,
		Zone:      spec.Zone,
		Region:    c.entry.region,
		Cloud:     c.entry.name,
		Flavor:    o.flavor.Name,
		Resources: o.amounts,
	}
}
