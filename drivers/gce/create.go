package gce

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/api/compute/v1"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// Create implements drivers.Cloud with one insert and one wait for its operation for each machine type that it tries: only
// the operation shows that the zone has no capacity. The name of the instance depends on the node and the installation, so
// a repetition in the same zone returns the same instance.
func (c *Cloud) Create(ctx context.Context, spec drivers.Spec) (resources.Instance, error) {
	if found, done, err := cloudkit.Earlier(spec, func() (resources.Instance, bool, error) { return c.find(ctx, spec) }); done {
		return found, err
	}
	zone, types, request, err := c.prepare(ctx, spec)
	if err != nil {
		return resources.Instance{}, drivers.Unsent(fmt.Errorf("create instance %s: %w", spec.Hostname, err))
	}
	return drivers.CreateFirst(&c.shortages, scopeOf(zone, request), types, func(t machineType) string { return t.name }, func(t machineType) (resources.Instance, error) {
		return c.insert(ctx, spec, zone, t, request)
	})
}

// scopeOf returns the scope of shortages: Google has other capacity for spot instances.
func scopeOf(zone string, i *compute.Instance) string {
	return zone + " " + i.Scheduling.ProvisioningModel
}

// find searches by ownership labels, in all zones, for the instance that an earlier Create with this ID may have created.
func (c *Cloud) find(ctx context.Context, spec drivers.Spec) (resources.Instance, bool, error) {
	found, err := c.api.instances(ctx, labelFilter(spec.Marks))
	if err != nil {
		return resources.Instance{}, false, err
	}
	found = slices.DeleteFunc(found, func(i *compute.Instance) bool {
		return statusOf(i.Status) == resources.StatusDeleting || !ownerOf(i).SameRecord(spec.Marks)
	})
	list, err := c.convert(ctx, found)
	if err != nil || len(list) == 0 {
		return resources.Instance{}, false, err
	}
	return list[0], true, nil
}

// prepare returns the zone, its machine types of the offer, and the instance to create without its machine type.
func (c *Cloud) prepare(ctx context.Context, spec drivers.Spec) (string, []machineType, *compute.Instance, error) {
	s, err := decodeOffer(spec.Config)
	if err != nil {
		return "", nil, nil, err
	}
	zones := c.zonesFor(s)
	if spec.Zone != "" {
		zones = []string{spec.Zone}
	}
	if err := c.checkZones(zones); err != nil {
		return "", nil, nil, err
	}
	having, types, missing, err := c.names.offered(ctx, s.MachineTypes, zones)
	if err == nil && len(having) == 0 {
		err = c.names.unknownTypes(ctx, missing, zones)
	}
	if err != nil {
		return "", nil, nil, err
	}
	labels, err := instanceLabels(spec, s, having[0])
	if err != nil {
		return "", nil, nil, err
	}
	return having[0], types[having[0]], c.request(spec, s, having[0], labels), nil
}

// request describes an instance. A boot disk has the labels and the end of its instance.
func (c *Cloud) request(spec drivers.Spec, s labelSettings, zone string, labels map[string]string) *compute.Instance {
	disk := &compute.AttachedDiskInitializeParams{SourceImage: c.imagePath(spec.ImageID), DiskSizeGb: s.VolumeSize, Labels: labels}
	if s.VolumeType != "" {
		disk.DiskType = "zones/" + zone + "/diskTypes/" + s.VolumeType
	}
	i := &compute.Instance{
		Name:              instanceName(spec.Hostname, spec.Marks.Installation),
		Labels:            labels,
		Disks:             []*compute.AttachedDisk{{Boot: true, AutoDelete: true, InitializeParams: disk}},
		NetworkInterfaces: []*compute.NetworkInterface{c.networkInterface(s)},
		Metadata:          metadataOf(s),
		Scheduling:        schedulingOf(s),
	}
	if len(s.NetworkTags) > 0 {
		i.Tags = &compute.Tags{Items: s.NetworkTags}
	}
	if s.ServiceAccount != "" {
		i.ServiceAccounts = []*compute.ServiceAccount{{Email: s.ServiceAccount, Scopes: scopesOf(s.Scopes)}}
	}
	if s.NestedVirt {
		i.AdvancedMachineFeatures = &compute.AdvancedMachineFeatures{EnableNestedVirtualization: true}
	}
	return i
}

const provisioningSpot = "SPOT"

// schedulingOf lets an instance end when its host fails: the jobs on it have failed too.
func schedulingOf(s labelSettings) *compute.Scheduling {
	automaticRestart := false
	scheduling := &compute.Scheduling{AutomaticRestart: &automaticRestart}
	if s.isSpot() {
		scheduling.ProvisioningModel, scheduling.InstanceTerminationAction, scheduling.OnHostMaintenance = provisioningSpot, "DELETE", "TERMINATE"
	}
	return scheduling
}

func (c *Cloud) networkInterface(s labelSettings) *compute.NetworkInterface {
	n := &compute.NetworkInterface{}
	switch {
	case s.Network != "":
		n.Network = "global/networks/" + s.Network
	case s.Subnetwork == "":
		n.Network = "global/networks/default"
	}
	switch {
	case strings.Contains(s.Subnetwork, "/"):
		n.Subnetwork = s.Subnetwork
	case s.Subnetwork != "":
		n.Subnetwork = "regions/" + c.region + "/subnetworks/" + s.Subnetwork
	}
	if s.PublicIPv4 {
		n.AccessConfigs = []*compute.AccessConfig{{Name: "External NAT", Type: "ONE_TO_ONE_NAT"}}
	}
	return n
}

// The keys of metadata that attributes set.
const (
	metadataUserData = "user-data"
	metadataSSHKeys  = "ssh-keys"
)

func metadataOf(s labelSettings) *compute.Metadata {
	values := map[string]string{}
	maps.Copy(values, s.Metadata)
	if s.UserData != "" {
		values[metadataUserData] = s.UserData
	}
	if len(s.SSHKeys) > 0 {
		values[metadataSSHKeys] = strings.Join(s.SSHKeys, "\n")
	}
	m := &compute.Metadata{}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value := values[key]
		m.Items = append(m.Items, &compute.MetadataItems{Key: key, Value: &value})
	}
	return m
}

// scopesOf completes short names of scopes.
func scopesOf(names []string) (urls []string) {
	for _, name := range names {
		if !strings.Contains(name, "://") {
			name = "https://www.googleapis.com/auth/" + name
		}
		urls = append(urls, name)
	}
	if len(urls) == 0 {
		return []string{compute.CloudPlatformScope}
	}
	return urls
}

// instanceLabels returns the user's labels, overridden by npctl's.
func instanceLabels(spec drivers.Spec, s labelSettings, zone string) (map[string]string, error) {
	labels := map[string]string{}
	maps.Copy(labels, s.Labels)
	for key, value := range spec.Properties {
		if !labelKey().MatchString(key) {
			return nil, fmt.Errorf("%w: label %.70q: a key has 1 to 63 lower-case letters, digits, hyphens and underscores", drivers.ErrRejected, key)
		}
		labels[key] = sanitize(value)
	}
	if s.UseInternalIP {
		labels[cloudkit.TagInterface] = cloudkit.PrivateInterface
	}
	owner, err := ownerLabels(spec.Marks)
	maps.Copy(labels, owner)
	labels[drivers.TagObject] = objectLabel(place{zone, instanceName(spec.Hostname, spec.Marks.Installation)})
	if len(labels) > maxLabels {
		return nil, fmt.Errorf("%w: %d labels: Google accepts %d; remove some", drivers.ErrRejected, len(labels), maxLabels)
	}
	return labels, err
}

// instanceName is unique among the installations that use the project.
func instanceName(hostname, installation string) string { return hostname + nameSuffix(installation) }

func nameSuffix(installation string) string {
	sum := sha256.Sum256([]byte(installation))
	return "-" + hex.EncodeToString(sum[:4])
}

// insert requests an instance of one machine type and waits for the operation. If Google still works on the operation
// after its limit of two minutes, the instance is pending, and List shows its end.
func (c *Cloud) insert(ctx context.Context, spec drivers.Spec, zone string, t machineType, request *compute.Instance) (resources.Instance, error) {
	one := *request
	one.MachineType = "zones/" + zone + "/machineTypes/" + t.name
	op, err := c.api.insert(ctx, zone, &one)
	if err == nil && op.Status != "DONE" {
		op, err = c.api.wait(ctx, zone, op.Name)
	}
	if err == nil {
		err = operationError(fmt.Sprintf("create instance %s (%s) in %s", one.Name, t.name, zone), op)
	}
	if isDuplicate(err) {
		return c.duplicate(ctx, spec, place{zone, one.Name})
	}
	if err != nil {
		return resources.Instance{}, err
	}
	return resources.Instance{ID: place{zone, one.Name}.String(), Name: spec.Hostname, Marks: spec.Marks, Status: resources.StatusPending, Zone: zone,
		Region: c.region, Cloud: cloudName, Flavor: t.name, Resources: amountsOf(t, &one)}, nil
}

// duplicate returns the instance that has the name of the request.
func (c *Cloud) duplicate(ctx context.Context, spec drivers.Spec, at place) (resources.Instance, error) {
	i, err := c.api.instance(ctx, at)
	if err != nil {
		return resources.Instance{}, drivers.Unsent(err)
	}
	switch {
	case !ownerOf(i).SameRecord(spec.Marks):
		return resources.Instance{}, drivers.Unsent(fmt.Errorf("create instance %s: %w: an instance with this name has %s", at, drivers.ErrRejected, drivers.DescribeOwner(ownerOf(i))))
	case statusOf(i.Status) == resources.StatusDeleting:
		return resources.Instance{}, drivers.Unsent(fmt.Errorf("create instance %s: an earlier instance of the node is still being deleted", at))
	}
	list, err := c.convert(ctx, []*compute.Instance{i})
	if err != nil {
		return resources.Instance{}, err
	}
	return list[0], nil
}

// Advance implements drivers.Cloud: Compute Engine needs no further steps.
func (c *Cloud) Advance(_ context.Context, _ drivers.Spec, seen resources.Instance) (resources.Instance, error) {
	return seen, nil
}
