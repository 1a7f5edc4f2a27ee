package convert

import "strings"

const azureCredentials = "credentials come from AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, an identity, or az login"

var azureAddressFields = []field{
	{key: "ipv6", attr: "ipv6", read: boolean, anchor: toAzure},
	{key: "public-ipv4", attr: "public_ipv4", read: boolean, anchor: toAzure},
	{key: "public-ipv6", attr: "public_ipv6", read: boolean, anchor: toAzure},
	{key: "use-internal-ip", attr: "use_internal_ip", read: boolean, anchor: toAzure},
	{key: "host-key-checking", attr: "host_key_checking", read: boolean, anchor: toAzure},
}

// azureNetworkFields are keys of a provider that are attributes of its pools.
var azureNetworkFields = []field{
	{key: "network", attr: "network", read: networkPart("network"), anchor: toAzure},
	{key: "network", attr: "network_resource_group", read: networkPart("resource-group"), anchor: toAzure},
	{key: "network", attr: "subnet", read: networkPart("subnet"), anchor: toAzure},
	{key: "subnet-id", attr: "subnet", read: text, anchor: toAzure},
}

var azureIPv4 = field{key: "ipv4", verdict: NoEffect, note: "nodes always have a private IPv4 address", anchor: toAzure}

// azureImageKeys are the keys that azureLabel reads.
var azureImageKeys = []field{
	{key: "key", verdict: Converted, note: "ssh_public_key of the labels that use the image", anchor: toAzure},
	{key: "password", verdict: Converted, note: "admin_password of the labels that use the image", anchor: toAzure},
	{key: "generate-password", verdict: Converted, note: "generate_password of the labels that use the image", anchor: toAzure},
}

// azureLogin are the keys of an image that are attributes of the labels that use it.
var azureLogin = []field{
	{key: "username", attr: "admin_username", read: text},
	{key: "key", attr: "ssh_public_key", read: text},
	{key: "password", attr: "admin_password", read: text},
	{key: "generate-password", attr: "generate_password", read: boolean},
}

func azureCloud() cloud {
	return cloud{
		provider: append([]field{
			{key: "location", attr: "location", read: text, anchor: toAzure},
			{key: "resource-group", attr: "resource_group", read: text, anchor: toAzure},
			{key: "resource-group-location", verdict: NoEffect, note: "npctl does not create the resource group", anchor: toAzure},
			{key: "auth-path", verdict: Changed, note: azureCredentials, anchor: toAzure},
			{key: "boot-timeout", attr: "boot_timeout", read: seconds, anchor: toAzure, byDefault: `"2m"`},
			{key: "rate", verdict: Changed, note: "npctl's rate also counts reads; its default suits the limits of Azure", anchor: toAzure},
			{key: "post-upload-hook", attr: "post_upload_hook", read: text, anchor: toAzure},
			{key: "zuul-public-key", verdict: Converted, note: "ssh_public_key of the labels whose images have no key", anchor: toAzure},
			azureIPv4, {key: "diskimages"}, {key: "cloud-images"},
		}, launchFields...),
		inherited: append(azureNetworkFields[:len(azureNetworkFields):len(azureNetworkFields)], azureAddressFields...),
		cloudImage: append(append([]field{
			{key: "image-id", attr: "image_id", read: text, anchor: toAzure},
			{key: "image-reference", attr: "image_id", read: marketplaceImage, anchor: toAzure},
			{key: "shared-gallery-image", attr: "image_id", read: galleryImage("/SharedGalleries/"), anchor: toAzure},
			{key: "community-gallery-image", attr: "image_id", read: galleryImage("/CommunityGalleries/"), anchor: toAzure},
			{key: "image-filter", attr: "filters", read: azureFilter, verdict: Changed, note: "the newest image wins, not the last by name; npctl has no filter by location", anchor: toAzure},
		}, azureImageKeys...), loginFields...),
		image: append(append([]field{
			{key: "pause", attr: "pause", read: boolean, anchor: toAzure},
			{key: "tags", attr: "properties", read: textMap, anchor: toAzure},
		}, azureImageKeys...), loginFields...),
		pool: append(append([]field{
			{key: "max-servers", attr: "max_servers", read: limit, anchor: toAzure}, azureIPv4, {key: "labels"},
		}, azureAddressFields...), poolFields...),
		label: []field{
			{key: "hardware-profile", attr: "vm_sizes", read: vmSize, anchor: toAzure},
			{key: "tags", attr: "tags", read: textMap, anchor: toAzure},
			{key: "dynamic-tags", attr: "request_properties", read: textMap, note: "labels are separated by commas, requestor data is JSON, times are whole seconds", anchor: toAzure},
			{key: "user-data", attr: "userdata", read: text, anchor: toAzure},
			{key: "custom-data", attr: "custom_data", read: text, anchor: toAzure},
			{key: "volume-size", attr: "volume_size", read: integer, anchor: toAzure},
			{key: "diskimage"}, {key: "cloud-image"}, {key: "name"},
		},
		check: (*provider).azureLabel,
	}
}

// networkPart reads a part of a network, which is a name or a mapping.
func networkPart(key string) reader {
	return func(t *translator, n *node) (string, bool) {
		if n.kind == mappingNode {
			if e := n.get(key); e.set() {
				return text(t, e.value)
			}
			return "", false
		}
		if key != "network" {
			return "", false
		}
		return text(t, n)
	}
}

// vmSize reads a hardware profile.
func vmSize(t *translator, n *node) (string, bool) {
	if e := n.get("vm-size"); e.set() {
		return texts(t, e.value)
	}
	return t.wrong(n, "a mapping with vm-size")
}

// parts returns the texts of keys of a mapping, all of which must exist.
func (t *translator) parts(n *node, keys ...string) (all []string, ok bool) {
	for _, key := range keys {
		e := n.get(key)
		if !e.set() || e.value.kind != scalarNode {
			t.fail(n, "the image needs %s", key)
			return nil, false
		}
		all = append(all, e.value.text)
	}
	return all, true
}

func marketplaceImage(t *translator, n *node) (string, bool) {
	all, ok := t.parts(n, "publisher", "offer", "sku", "version")
	return t.textExpr(strings.Join(all, ":")), ok
}

func galleryImage(prefix string) reader {
	return func(t *translator, n *node) (string, bool) {
		all, ok := t.parts(n, "gallery-name", "name", "version")
		if !ok {
			return "", false
		}
		return t.textExpr(prefix + all[0] + "/Images/" + all[1] + "/Versions/" + all[2]), true
	}
}

// azureFilter reads a filter of managed images, which are in one location.
func azureFilter(t *translator, n *node) (string, bool) {
	if n.kind != mappingNode {
		return t.wrong(n, "a mapping")
	}
	var elements []element
	add := func(e *entry) {
		if expr, ok := texts(t, e.value); ok {
			elements = append(elements, element{key: mapKey(e.name), expr: expr, head: t.allComments(e)})
		}
	}
	if e := n.get("name"); e.set() {
		add(e)
	}
	if tags := n.get("tags"); tags.set() {
		for _, e := range tags.value.entries {
			add(e)
		}
	}
	return collection(elements, true), true
}

// azureLabel adds the login, which Nodepool reads from the image and the provider.
func (p *provider) azureLabel(n *node, b *block) {
	if e := n.get("dynamic-tags"); e != nil {
		p.checkTemplates(e, b)
	}
	e, images := n.get("cloud-image"), p.cloudImages
	if e == nil {
		e, images = n.get("diskimage"), p.diskimages
	}
	if !e.set() {
		return
	}
	name := e.value.text
	for _, f := range azureLogin {
		var from *entry
		if im := images[name]; im != nil {
			from = im.n.get(f.key)
		}
		if f.key == "key" && !from.set() {
			from = p.source.get("zuul-public-key")
		}
		if from.set() {
			if expr, ok := f.read(p.translator, from.value); ok {
				b.set(f.attr, expr)
			}
			continue
		}
		if f.key != "username" || n.get("diskimage") == nil {
			continue
		}
		for im := p.images.all[name]; im != nil; im = p.images.all[im.parent] {
			if expr, ok := im.b.get("username"); ok {
				b.set(f.attr, expr)
				break
			}
		}
	}
}
