package convert

import (
	"slices"
	"strings"
)

var ibmVPCPlaceFields = []field{
	{key: "zone", attr: "zones", read: texts, anchor: toIBMVPC},
	{key: "subnet", attr: "subnets", read: texts, anchor: toIBMVPC},
	{key: "public-ipv4", attr: "public_ipv4", read: boolean, anchor: toIBMVPC},
	{key: "use-internal-ip", attr: "use_internal_ip", read: boolean, anchor: toIBMVPC},
	{key: "host-key-checking", attr: "host_key_checking", read: boolean, anchor: toIBMVPC},
}

var ibmVPCCloud = cloud{
	provider: slices.Concat([]field{
		{key: "region", attr: "region", read: text, anchor: toIBMVPC},
		{key: "vpc", attr: "vpc", read: text, anchor: toIBMVPC},
		{key: "credentials-file", verdict: Changed, note: "set IBM_CREDENTIALS_FILE to this path in the environment of npctl", anchor: toIBMVPC},
		{key: "boot-timeout", attr: "boot_timeout", read: seconds, anchor: toIBMVPC, byDefault: `"2m"`},
		{key: "rate", verdict: Changed, note: "npctl's rate also counts reads", anchor: toIBMVPC},
		{key: "post-upload-hook", attr: "post_upload_hook", read: text, anchor: toIBMVPC},
		{key: "image-format", attr: "image_format", read: text, anchor: toIBMVPC},
		{key: "object-storage"}, {key: "quota"},
		{key: "diskimages"}, {key: "cloud-images"},
	}, launchFields),
	inherited: ibmVPCPlaceFields,
	cloudImage: slices.Concat([]field{
		{key: "image-id", attr: "image_id", read: text, anchor: toIBMVPC},
		{key: "image-name", attr: "image_name", read: text, anchor: toIBMVPC},
		{key: "image-href", attr: "filters", read: hrefFilter, anchor: toIBMVPC},
		{key: "image-filter", attr: "filters", read: ibmVPCFilters, anchor: toIBMVPC},
		{key: "keys", verdict: Changed, note: "keys of the labels that use the image", anchor: toIBMVPC},
	}, loginFields),
	image: slices.Concat([]field{
		{key: "pause", attr: "pause", read: boolean, anchor: toIBMVPC},
		{key: "operating-system", attr: "operating_system", read: text, anchor: toIBMVPC},
		{key: "key", verdict: NoEffect, note: "Nodepool ignores it", anchor: toIBMVPC},
	}, loginFields),
	pool: slices.Concat([]field{{key: "labels"}}, ibmVPCPlaceFields, limitFields[:3], poolFields),
	label: []field{
		{key: "profile", attr: "profiles", read: texts, anchor: toIBMVPC},
		{key: "user-data", attr: "user_data", read: text, anchor: toIBMVPC},
		{key: "diskimage"}, {key: "cloud-image"}, {key: "name"},
	},
	checkProvider: (*provider).ibmVPC,
	check:         (*provider).ibmVPCLabel,
}

// hrefFilter reads the link of an image.
func hrefFilter(t *translator, n *node) (string, bool) {
	expr, ok := texts(t, n)
	return collection([]element{{key: "href", expr: expr}}, true), ok
}

// ibmVPCFilters reads the filters of images, of which one is a mapping.
func ibmVPCFilters(t *translator, n *node) (string, bool) {
	if n.kind != mappingNode {
		return t.wrong(n, "a mapping of filters")
	}
	var elements []element
	add := func(name string, e *entry) bool {
		expr, ok := texts(t, e.value)
		out := element{key: mapKey(strings.ReplaceAll(name, "-", "_")), expr: expr}
		out.head, out.beside, out.foot = t.keyComments(e)
		elements = append(elements, out)
		return ok
	}
	for _, e := range n.entries {
		if e.value.kind != mappingNode {
			if !add(e.name, e) {
				return "", false
			}
			continue
		}
		for _, inner := range e.value.entries {
			if !add(e.name+"."+inner.name, inner) {
				return "", false
			}
		}
	}
	return collection(elements, true), true
}

// ibmVPC translates the nested keys of a provider.
func (p *provider) ibmVPC(n *node, _ *block) {
	if quota := n.get("quota"); quota.set() {
		p.fields(quota.value, p.b, []field{
			{key: "instances", attr: "max_servers", read: limit, anchor: toIBMVPC},
			{key: "cores", attr: "max_cores", read: limit, anchor: toIBMVPC},
			{key: "ram", attr: "max_ram", read: limit, anchor: toIBMVPC},
		})
		p.note(quota, Converted, "", toIBMVPC)
	}
	if storage := n.get("object-storage"); storage.set() {
		table := []field{
			{key: "endpoint", attr: "endpoint", read: text, anchor: toIBMVPC},
			{key: "bucket-name", attr: "bucket", read: text, anchor: toIBMVPC},
			{key: "instance-name", verdict: NoEffect, note: "the endpoint and the bucket are sufficient", anchor: toIBMVPC},
		}
		b := newBlock("object_storage")
		b.comment = p.allComments(storage)
		p.fields(storage.value, b, table)
		p.rest(storage.value, b, table)
		p.note(storage, Converted, "", toIBMVPC)
		p.b.add(b)
	}
}

// ibmVPCLabel adds the keys of the image.
func (p *provider) ibmVPCLabel(n *node, b *block) {
	cloudImage := n.get("cloud-image")
	if cloudImage == nil || p.cloudImages[cloudImage.value.text] == nil {
		return
	}
	if keys := p.cloudImages[cloudImage.value.text].n.get("keys"); keys.set() {
		if expr, ok := texts(p.translator, keys.value); ok {
			b.set("keys", expr)
		}
	}
}
