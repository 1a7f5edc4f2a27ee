package openstack

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// nodepoolPrefix starts the names of the metadata by which Nodepool finds its servers and images. Nodepool deletes a
// server with its provider's name and without a record in its ZooKeeper, so Adopt removes this metadata.
const nodepoolPrefix = "nodepool_"

// LookUp implements drivers.Adopter. Objects of other projects, which an administrator can read, do not exist for it.
func (c *Cloud) LookUp(ctx context.Context, kind resources.Kind, id string) (resources.ExistingObject, bool, error) {
	if kind == resources.KindUpload {
		found, exists, err := c.image(ctx, id)
		if err != nil || !exists || found.Status == "deleted" || found.Owner != "" && found.Owner != c.project {
			return resources.ExistingObject{}, false, err
		}
		return resources.ExistingObject{Image: found.remote(), Program: nodepoolText(found.Properties)}, true, nil
	}
	s, exists, err := c.server(ctx, url.PathEscape(id))
	if err != nil || !exists || s.Project != "" && s.Project != c.project {
		return resources.ExistingObject{}, false, err
	}
	instances, err := c.instances(ctx, []server{s})
	if err != nil {
		return resources.ExistingObject{}, false, err
	}
	object := resources.ExistingObject{Instance: instances[0], Program: nodepoolText(s.Metadata), Settings: map[string][]string{}, BootedOf: s.Image.ID}
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
	servers = slices.DeleteFunc(servers, func(s server) bool { return marksOf(s.Metadata) != resources.OwnerTags{} })
	instances, err := c.instances(ctx, servers)
	if err != nil {
		return nil, err
	}
	for i := range servers {
		others = append(others, resources.ExistingObject{Instance: instances[i], Program: nodepoolText(servers[i].Metadata)})
	}
	images, err := c.listImages(ctx, url.Values{"owner": {c.project}})
	for _, i := range images {
		if i.marks() == (resources.OwnerTags{}) && i.Status != "deleted" {
			others = append(others, resources.ExistingObject{Image: i.remote(), Program: nodepoolText(i.Properties)})
		}
	}
	return others, err
}

// nodepoolText describes Nodepool's metadata, or returns "" if there is none.
func nodepoolText(metadata map[string]string) string {
	provider := metadata[nodepoolPrefix+"provider_name"]
	id := cmp.Or(metadata[nodepoolPrefix+"node_id"], metadata[nodepoolPrefix+"upload_id"])
	switch {
	case provider == "" && id == "":
		return ""
	case id == "":
		return "Nodepool, provider " + provider
	default:
		return fmt.Sprintf("Nodepool, provider %s, ID %s", provider, id)
	}
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
	if err := checkAdoptable("server", id, marksOf(s.Metadata), marks, replaced); err != nil {
		return err
	}
	tags := metadata(marks)
	if err := checkMetadata(tags); err != nil {
		return err
	}
	at := c.compute.ServiceURL("servers", url.PathEscape(id), "metadata")
	_, err = c.compute.Post(ctx, at, map[string]any{"metadata": tags}, &struct{}{}, okCodes(http.StatusOK)) //nolint:bodyclose // gophercloud has read and closed it
	if err != nil {
		return wrap("tag server "+id, err)
	}
	for name := range s.Metadata {
		if !strings.HasPrefix(name, nodepoolPrefix) {
			continue
		}
		_, err := c.compute.Delete(ctx, c.compute.ServiceURL("servers", url.PathEscape(id), "metadata", url.PathEscape(name)), nil)
		if err = wrap("remove metadata "+name+" of server "+id, err); err != nil && !isStatus(err, http.StatusNotFound) {
			return err
		}
	}
	return nil
}

// checkAdoptable rejects an object with the ownership tags of another record.
func checkAdoptable(what, id string, found, marks, replaced resources.OwnerTags) error {
	same := found.Installation == marks.Installation && found.Kind == marks.Kind && found.ID == marks.ID
	if found.Installation == "" || same || found == replaced {
		return nil
	}
	return fmt.Errorf("%s %s: %w: it has %s", what, id, drivers.ErrNotOurs, describe(found))
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
	if err := checkAdoptable("image", id, now.marks(), marks, replaced); err != nil {
		return err
	}
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value,omitempty"`
	}
	var patch []operation
	tags := metadata(marks)
	for _, name := range slices.Sorted(maps.Keys(now.Properties)) {
		if strings.HasPrefix(name, nodepoolPrefix) || strings.HasPrefix(name, markPrefix) && tags[name] == "" && name != keySHA256 {
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
	client, err := st.service(serviceImage)
	if err != nil {
		return err
	}
	_, err = client.Patch(ctx, client.ServiceURL("images", url.PathEscape(id)), patch, &struct{}{}, &gophercloud.RequestOpts{ //nolint:bodyclose // gophercloud has read and closed it
		OkCodes: []int{http.StatusOK}, MoreHeaders: map[string]string{"Content-Type": "application/openstack-images-v2.1-json-patch"}})
	return wrap("tag image "+id, err)
}

// pointer escapes a name for a JSON pointer.
func pointer(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }
