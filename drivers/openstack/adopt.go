package openstack

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// LookUp implements drivers.Adopter. Objects of other projects, which an administrator can read, do not exist for it.
func (c *Cloud) LookUp(ctx context.Context, kind resources.Kind, id string) (resources.ExistingObject, bool, error) {
	if kind == resources.KindUpload {
		found, exists, err := c.image(ctx, id)
		if err != nil || !exists || found.Status == "deleted" || found.Owner != "" && found.Owner != c.project {
			return resources.ExistingObject{}, false, err
		}
		return resources.ExistingObject{Image: found.remote(), Program: cloudkit.NodepoolText(found.Properties)}, true, nil
	}
	s, exists, err := c.server(ctx, url.PathEscape(id))
	if err != nil || !exists || s.Project != "" && s.Project != c.project {
		return resources.ExistingObject{}, false, err
	}
	instances, err := c.instances(ctx, []server{s})
	if err != nil {
		return resources.ExistingObject{}, false, err
	}
	object := resources.ExistingObject{Instance: instances[0], Program: cloudkit.NodepoolText(s.Metadata), Settings: map[string][]string{}, BootedOf: s.Image.ID}
	for name, values := range map[string][]string{"flavor": {instances[0].Flavor}, "key_name": {s.Key}, "availability_zones": {s.Zone},
		"networks": slices.Sorted(maps.Keys(s.Addresses))} {
		if values = slices.DeleteFunc(values, func(v string) bool { return v == "" }); len(values) > 0 {
			object.Settings[name] = values
		}
	}
	return object, true, nil
}

// ListOthers implements drivers.Adopter.
func (c *Cloud) ListOthers(ctx context.Context) (others []resources.ExistingObject, err error) {
	servers, err := all(ctx, listing{client: c.compute, path: "servers/detail", key: "servers", doing: "list servers"},
		func(s server) string { return s.ID })
	if err != nil {
		return nil, err
	}
	servers = slices.DeleteFunc(servers, func(s server) bool { return ownerOf(s.Metadata) != resources.OwnerTags{} })
	instances, err := c.instances(ctx, servers)
	if err != nil {
		return nil, err
	}
	for i := range servers {
		others = append(others, resources.ExistingObject{Instance: instances[i], Program: cloudkit.NodepoolText(servers[i].Metadata)})
	}
	images, err := c.listImages(ctx, url.Values{"owner": {c.project}})
	for _, i := range images {
		if i.marks() == (resources.OwnerTags{}) && i.Status != "deleted" {
			others = append(others, resources.ExistingObject{Image: i.remote(), Program: cloudkit.NodepoolText(i.Properties)})
		}
	}
	return others, err
}

// Adopt implements drivers.Adopter.
func (c *Cloud) Adopt(ctx context.Context, id string, marks, replaced resources.OwnerTags) error {
	if marks.Kind == resources.KindUpload {
		return c.adoptImage(ctx, id, marks, replaced)
	}
	s, exists, err := c.server(ctx, url.PathEscape(id))
	if err == nil && !exists {
		err = fmt.Errorf("%w: server %s does not exist", drivers.ErrRejected, id)
	}
	if err != nil {
		return err
	}
	if err := cloudkit.CheckAdoptable("server", id, ownerOf(s.Metadata), marks, replaced); err != nil {
		return err
	}
	tags := drivers.EncodeTags(marks)
	if err := checkMetadata(tags); err != nil {
		return err
	}
	at := c.compute.ServiceURL("servers", url.PathEscape(id), "metadata")
	_, err = c.compute.Post(ctx, at, map[string]any{"metadata": tags}, &struct{}{}, okCodes(http.StatusOK)) //nolint:bodyclose // gophercloud has read and closed it
	if err != nil {
		return wrap("tag server "+id, err)
	}
	for name := range s.Metadata {
		if !strings.HasPrefix(name, cloudkit.NodepoolPrefix) {
			continue
		}
		if err := c.removeMetadata(ctx, id, name); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cloud) removeMetadata(ctx context.Context, id, name string) error {
	_, err := c.compute.Delete(ctx, c.compute.ServiceURL("servers", url.PathEscape(id), "metadata", url.PathEscape(name)), nil)
	return cloudkit.UnlessMissing(wrap("remove metadata "+name+" of server "+id, err))
}

// Release implements drivers.Adopter. The ports and floating IPs of a server lose their tags before it: until then they
// belong to its record. Of the metadata the installation goes first: without it no other one is an ownership tag.
func (c *Cloud) Release(ctx context.Context, id string, marks resources.OwnerTags) error {
	if marks.Kind == resources.KindUpload {
		return c.releaseImage(ctx, id, marks)
	}
	s, exists, err := c.server(ctx, url.PathEscape(id))
	if err != nil || !exists {
		return err
	}
	b := c.belongingsOf(s.Metadata)
	if err := cloudkit.CheckAdoptable("server", id, b.marks, marks, resources.OwnerTags{}); err != nil {
		return err
	}
	if b.marks.Installation != "" && (b.floating || b.ports) {
		if err := c.network.release(ctx, b.marks, id); err != nil {
			return err
		}
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(s.Metadata)), func(name string) bool { return !isOwnerTag(name) || name == keyInstallation })
	for _, name := range append([]string{keyInstallation}, names...) {
		if err := c.removeMetadata(ctx, id, name); err != nil {
			return err
		}
	}
	if c.microversion < withTags {
		return nil
	}
	_, err = c.compute.Delete(ctx, c.compute.ServiceURL("servers", url.PathEscape(id), "tags", markTag), nil)
	return cloudkit.UnlessMissing(wrap("remove tag of server "+id, err))
}

// isOwnerTag reports whether metadata of this name belongs to npctl or to Nodepool.
func isOwnerTag(name string) bool {
	return strings.HasPrefix(name, markPrefix) || strings.HasPrefix(name, cloudkit.NodepoolPrefix)
}

// release removes the ownership tags of the floating IPs and ports of a server.
func (nw *networking) release(ctx context.Context, m resources.OwnerTags, server string) error {
	client, err := nw.service(serviceNetwork)
	if err != nil {
		return err
	}
	ports, err := nw.ownPorts(ctx, m, server)
	if err != nil {
		return err
	}
	floating, err := nw.ownFloatingIPs(ctx, m, server)
	if err != nil {
		return err
	}
	clearDescription := func(kind, path, id string) error {
		body := map[string]any{kind: map[string]any{"description": ""}}                                   // without port_id Neutron keeps the association
		_, err := client.Put(ctx, client.ServiceURL(path, id), body, &struct{}{}, okCodes(http.StatusOK)) //nolint:bodyclose // gophercloud has read and closed it
		return cloudkit.UnlessMissing(wrap("remove tags of "+kind+" "+id, err))
	}
	for _, f := range floating {
		if err := clearDescription("floatingip", "floatingips", f.ID); err != nil {
			return err
		}
	}
	for _, p := range ports {
		if err := clearDescription("port", "ports", p.ID); err != nil {
			return err
		}
	}
	return nil
}

// adoptImage writes the tags of an image as properties, in one call, and then the tag by which ListImages filters.
func (st *imageStore) adoptImage(ctx context.Context, id string, marks, replaced resources.OwnerTags) error {
	now, exists, err := st.image(ctx, id)
	if err == nil && (!exists || now.Status == "deleted") {
		err = fmt.Errorf("%w: image %s does not exist", drivers.ErrRejected, id)
	}
	if err != nil {
		return err
	}
	if err := cloudkit.CheckAdoptable("image", id, now.marks(), marks, replaced); err != nil {
		return err
	}
	var patch []operation
	tags := drivers.EncodeTags(marks)
	tags[drivers.TagObject] = id
	for _, name := range slices.Sorted(maps.Keys(now.Properties)) {
		if strings.HasPrefix(name, cloudkit.NodepoolPrefix) || strings.HasPrefix(name, markPrefix) && tags[name] == "" && name != keySHA256 {
			patch = append(patch, operation{Op: "remove", Path: "/" + pointer(name)})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		op := "add"
		if _, exists := now.Properties[name]; exists {
			op = "replace"
		}
		patch = append(patch, operation{op, "/" + name, tags[name]})
	}
	if !slices.Contains(now.Tags, markTag) {
		patch = append(patch, operation{"replace", "/tags", append(slices.Clone(now.Tags), markTag)})
	}
	return st.patchImage(ctx, "tag image ", id, patch)
}

// operation is one change of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// patchImage changes an image in one call.
func (st *imageStore) patchImage(ctx context.Context, doing, id string, patch []operation) error {
	client, err := st.service(serviceImage)
	if err != nil {
		return err
	}
	_, err = client.Patch(ctx, client.ServiceURL("images", url.PathEscape(id)), patch, &struct{}{}, &gophercloud.RequestOpts{ //nolint:bodyclose // gophercloud has read and closed it
		OkCodes: []int{http.StatusOK}, MoreHeaders: map[string]string{"Content-Type": "application/openstack-images-v2.1-json-patch"}})
	return wrap(doing+id, err)
}

// releaseImage removes the tags of an image in one call.
func (st *imageStore) releaseImage(ctx context.Context, id string, marks resources.OwnerTags) error {
	now, exists, err := st.image(ctx, id)
	if err != nil || !exists || now.Status == "deleted" {
		return err
	}
	if err := cloudkit.CheckAdoptable("image", id, now.marks(), marks, resources.OwnerTags{}); err != nil {
		return err
	}
	var patch []operation
	for _, name := range slices.Sorted(maps.Keys(now.Properties)) {
		if isOwnerTag(name) {
			patch = append(patch, operation{Op: "remove", Path: "/" + pointer(name)})
		}
	}
	if slices.Contains(now.Tags, markTag) {
		patch = append(patch, operation{"replace", "/tags", slices.DeleteFunc(slices.Clone(now.Tags), func(t string) bool { return t == markTag })})
	}
	if len(patch) == 0 {
		return nil
	}
	return st.patchImage(ctx, "remove tags of image ", id, patch)
}

// pointer escapes a name for a JSON pointer.
func pointer(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }
