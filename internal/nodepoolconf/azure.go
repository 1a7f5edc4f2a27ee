package nodepoolconf

import (
	"cmp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/npctl/npctl/resources"
)

// azure records a provider of the driver azure.
func (r *reader) azure(path string, item value) error {
	for _, key := range []string{"location", "resource-group", "post-upload-hook"} {
		r.text(path, item, key, "")
	}
	r.numeric(path, item, "boot-timeout", "120")
	r.numeric(path, item, "launch-timeout", "3600")
	r.numeric(path, item, "launch-retries", "3")
	disk, cloud := map[string]value{}, map[string]value{}
	err := each(item, "diskimages", func(name string, img value) error {
		disk[name], r.listed[name] = img, true
		if _, own := img.get("username"); !own {
			img.fields["username"] = value{line: img.line, kind: yaml.ScalarNode, scalar: cmp.Or(r.images[name].values["username"].text(), "zuul")}
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = each(item, "cloud-images", func(name string, img value) error {
		cloud[name] = img
		path := under(path, "cloud-image", name)
		id, set := azureImageID(img)
		r.model.put(path, "image-id", orNone(id), img.line, set)
		filters := map[string]any{}
		all, set := img.get("image-filter")
		if name, ok := all.get("name"); ok {
			filters["name"] = []string{name.text()}
		}
		tags, _ := all.get("tags")
		for key, text := range tags.textMap() {
			filters[key] = []string{text}
		}
		r.model.put(path, "image-filter", asJSON(filters), max(all.line, img.line), set)
		r.text(path, img, "username", "")
		r.text(path, img, "python-path", "auto")
		r.text(path, img, "shell-type", "")
		r.connection(path, img)
		return nil
	})
	if err != nil {
		return err
	}
	return r.labelsOf(path, item, func(path string, pool value) { r.numeric(path, pool, "max-servers", none) }, func(path string, pool, label value) error {
		img, err := r.imageOf(path, label, disk, cloud)
		if err != nil {
			return err
		}
		r.azureLabel(path, item, pool, label, img)
		return nil
	})
}

// azureImageID returns the ID of an image in npctl's form.
func azureImageID(img value) (id string, set bool) {
	join := func(key, prefix string, separators []string, parts ...string) {
		all, ok := img.get(key)
		if !ok {
			return
		}
		id, set = prefix, true
		for i, part := range parts {
			one, _ := all.get(part)
			id += one.text() + separators[i]
		}
	}
	if v, ok := img.get("image-id"); ok {
		return v.text(), true
	}
	join("image-reference", "", []string{":", ":", ":", ""}, "publisher", "offer", "sku", "version")
	join("shared-gallery-image", "/SharedGalleries/", []string{"/Images/", "/Versions/", ""}, "gallery-name", "name", "version")
	join("community-gallery-image", "/CommunityGalleries/", []string{"/Images/", "/Versions/", ""}, "gallery-name", "name", "version")
	return id, set
}

func (r *reader) azureLabel(path string, item, pool, label, img value) {
	profile, set := label.get("hardware-profile")
	size, _ := profile.get("vm-size")
	r.model.put(path, "vm-size", list([]string{size.text()}), max(size.line, label.line), set)
	network, set := item.get("network")
	name, group, subnet := network.text(), "", "default"
	if network.kind == yaml.MappingNode {
		for key, to := range map[string]*string{"network": &name, "resource-group": &group, "subnet": &subnet} {
			if v, ok := network.get(key); ok {
				*to = v.text()
			}
		}
	}
	if id, ok := item.get("subnet-id"); ok {
		subnet = id.text()
	}
	for key, text := range map[string]string{"network": name, "network-resource-group": group, "subnet": subnet} {
		r.model.put(path, key, orNone(text), max(network.line, item.line), set)
	}
	for key, byDefault := range map[string]bool{"ipv6": false, "public-ipv4": true, "public-ipv6": false, "use-internal-ip": false, "host-key-checking": true} {
		r.flag(path, in(key, pool, item), key, byDefault)
	}
	r.text(path, img, "username", "")
	r.text(path, img, "password", "")
	r.flag(path, img, "generate-password", false)
	if _, own := img.get("key"); own {
		r.as(path, "key", img, "key")
	} else {
		r.as(path, "key", item, "zuul-public-key")
	}
	for _, key := range []string{"user-data", "custom-data"} {
		r.text(path, label, key, "")
	}
	r.as(path, "volume-size", label, "volume-size")
	r.mapping(path, label, "tags")
	r.mapping(path, label, "dynamic-tags")
}

// azure records a provider of npctl.
func (m Model) azure(put func(key, text string), p *resources.Provider, path string) {
	b := block(p.Config)
	put("location", orNone(b.text("location")))
	put("resource-group", orNone(b.text("resource_group")))
	put("boot-timeout", seconds(p.BootTimeout))
	put("launch-timeout", seconds(p.LaunchTimeout))
	put("post-upload-hook", orNone(p.PostUploadHook))
	for i := range p.CloudImages {
		img := &p.CloudImages[i]
		put := m.in(under(path, "cloud-image", img.Name), img.Source)
		put("image-id", orNone(img.ImageID))
		filters := map[string]any{}
		for name, values := range img.Filters {
			filters[name] = []string(values)
		}
		put("image-filter", asJSON(filters))
		m.login(put, img.Login)
	}
}

func azureOffer(put func(key, text string), b attributes, o *resources.Offer) {
	put("image", strings.ReplaceAll(string(o.Image.Kind), "_", "-")+" "+o.Image.Name)
	put("vm-size", list(b.texts("vm_sizes")))
	for _, key := range []string{"network", "network_resource_group", "subnet", "volume_size", "custom_data"} {
		put(nodepoolKey(key), orNone(b.text(key)))
	}
	for _, key := range []string{"ipv6", "public_ipv4", "public_ipv6", "use_internal_ip", "host_key_checking", "generate_password"} {
		put(nodepoolKey(key), b.text(key))
	}
	for key, attribute := range map[string]string{"username": "admin_username", "key": "ssh_public_key", "password": "admin_password", "user-data": "userdata"} {
		put(key, orNone(b.text(attribute)))
	}
	put("tags", textMap(b.textMap("tags")))
	put("dynamic-tags", textMap(b.textMap("request_properties")))
}
