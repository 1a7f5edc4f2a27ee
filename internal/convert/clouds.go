package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// cloud is how the providers of a driver other than openstack are translated.
type cloud struct {
	provider, image, cloudImage, pool, label []field
	// inherited are the keys of a provider that are the defaults of its pools.
	inherited []field
	project   bool // the name of a pool is that of a project
	// checkProvider and checkImage translate what the tables cannot, for the provider and each of its diskimages.
	checkProvider func(p *provider, n *node, b *block)
	checkImage    func(p *provider, provider, n *node, b *block)
	// check translates what the tables cannot, for each label.
	check func(p *provider, n *node, b *block)
}

// clouds are the drivers of Nodepool that this file translates.
var clouds = map[string]cloud{
	"aws":           awsCloud,
	"ibmvpc":        ibmVPCCloud,
	"gce":           gceCloud,
	"azure":         azureCloud(),
	"kubernetes":    kubernetesCloud(),
	"openshift":     openshiftCloud(),
	"openshiftpods": openshiftPodsCloud(),
	"metastatic":    metastaticCloud,
}

// cloud translates a provider by the tables of its driver.
func (p *provider) cloud(n *node, c cloud) {
	provider := n
	p.fields(n, p.b, c.provider)
	if c.checkProvider != nil {
		c.checkProvider(p, n, p.b)
	}
	p.maxConcurrency(n)
	p.diskimages, p.cloudImages, p.used = map[string]*image{}, map[string]*image{}, map[string]bool{}
	if c.image != nil {
		own := p.blocks(n.get("diskimages"), "diskimage", "image", strictName, func(n *node, b *block) {
			if name := b.labels[0]; p.images.all[name] == nil {
				p.unknown(n.get("name").value, "diskimage", name, p.images.order)
			}
			p.diskimages[b.labels[0]] = p.image(n, b, c.image)
			if c.checkImage != nil {
				c.checkImage(p, provider, n, b)
			}
		})
		p.b.add(p.blocks(n.get("cloud-images"), "cloud-image", "cloud_image", anyName, func(n *node, b *block) {
			name := b.labels[0]
			b.labels[0] = blockName(name)
			p.cloudImages[name] = p.image(n, b, c.cloudImage)
		})...)
		defer p.addImages(own)
	}
	if c.project {
		p.project(n)
	}
	pools := p.blocks(n.get("pools"), "pool", "pool", strictName, func(pool *node, b *block) { p.cloudPool(n, pool, b, c) })
	for _, f := range c.inherited {
		if e := n.get(f.key); e != nil && !e.done {
			p.note(e, NoEffect, "each pool has its own value", f.anchor)
			p.b.remark(p.allComments(e)...)
		}
	}
	p.b.add(pools...)
	p.rest(n, p.b, slices.Concat(c.provider, c.inherited))
}

// inheritResources adds the entries of max-resources of a provider that its pool does not have.
func inheritResources(n, pool *node) {
	all, own := n.get("max-resources"), pool.get("max-resources")
	if !all.set() || !own.set() || own.value.kind != mappingNode {
		return
	}
	merged := *own.value
	merged.entries = slices.Clone(merged.entries)
	for _, e := range all.value.entries {
		if own.value.get(e.name) == nil {
			merged.entries = append(merged.entries, e)
		}
	}
	own.value = &merged
}

func (p *provider) cloudPool(n, pool *node, b *block, c cloud) {
	inheritResources(n, pool)
	p.fields(pool, b, c.pool)
	for _, f := range c.inherited {
		e := n.get(f.key)
		if _, set := b.get(f.attr); set || !e.set() {
			continue
		}
		if !e.done {
			p.attribute(e, b, f.attr, f.read)
			p.mark(e, Converted, "an attribute of each pool", f.anchor)
		} else if expr, ok := f.read(p.translator, e.value); ok { // of another pool
			b.set(f.attr, expr)
		}
	}
	b.add(p.blocks(pool.get("labels"), "label", "label", looseName, func(n *node, b *block) {
		if name := b.labels[0]; !p.known[name] {
			p.unknown(n.get("name").value, "label", name, sortedKeys(p.known))
		}
		if c.image != nil {
			p.labelImage(n, b)
		}
		if c.check != nil {
			c.check(p, n, b)
		}
		p.fields(n, b, c.label)
		p.rest(n, b, c.label)
	})...)
	p.rest(pool, b, c.pool)
}

var launchFields = []field{
	{key: "launch-timeout", attr: "launch_timeout", read: seconds, anchor: toEvery},
	{key: "launch-retries", attr: "launch_attempts", read: integer, anchor: toEvery},
	{key: "priority", attr: "priority", read: integer, anchor: toEvery},
	{key: "max-concurrency"}, {key: "pools"}, {key: "name"}, {key: "driver"},
}

var limitFields = []field{
	{key: "max-servers", attr: "max_servers", read: limit, anchor: toEvery},
	{key: "max-cores", attr: "max_cores", read: limit, anchor: toEvery},
	{key: "max-ram", attr: "max_ram", read: limit, anchor: toEvery},
	{key: "max-resources", attr: "max_resources", read: numbers, anchor: toEvery},
}

// numbers reads a mapping of numbers.
func numbers(t *translator, n *node) (string, bool) {
	if n.kind != mappingNode {
		return t.wrong(n, "a mapping")
	}
	var elements []element
	for _, e := range n.entries {
		expr, ok := limit(t, e.value)
		if !ok {
			return "", false
		}
		out := element{key: mapKey(e.name), expr: expr}
		out.head, out.beside, out.foot = t.keyComments(e)
		elements = append(elements, out)
	}
	return collection(elements, true), true
}

// jsonText reads any value as a JSON text.
func jsonText(t *translator, n *node) (string, bool) {
	return "jsonencode(" + t.jsonExpr(n) + ")", true
}

var loginFields = []field{
	{key: "username", attr: "username", read: text, anchor: toEvery},
	{key: "python-path", attr: "python_path", read: text, anchor: toEvery},
	{key: "shell-type", attr: "shell_type", read: text, anchor: toEvery},
	{key: "connection-type", attr: "connection_type", read: text, anchor: toEvery},
	{key: "connection-port", attr: "connection_port", read: integer, anchor: toEvery},
	{key: "name"},
}

// awsVolumeFields describe a root volume.
var awsVolumeFields = []field{
	{key: "volume-size", attr: "volume_size", read: integer, anchor: toAWS},
	{key: "volume-type", attr: "volume_type", read: text, anchor: toAWS},
	{key: "iops", attr: "iops", read: integer, anchor: toAWS},
	{key: "throughput", attr: "throughput", read: integer, anchor: toAWS},
}

var awsAddressFields = []field{
	{key: "public-ipv4", attr: "public_ipv4", read: boolean, anchor: toAWS},
	{key: "public-ipv6", attr: "public_ipv6", read: boolean, anchor: toAWS},
	{key: "use-internal-ip", attr: "use_internal_ip", read: boolean, anchor: toAWS},
	{key: "host-key-checking", attr: "host_key_checking", read: boolean, anchor: toAWS},
}

var awsCloud = cloud{
	provider: slices.Concat([]field{
		{key: "region-name", attr: "region", read: text, anchor: toAWS},
		{key: "profile-name", attr: "profile", read: text, anchor: toAWS},
		{key: "boot-timeout", attr: "boot_timeout", read: seconds, anchor: toAWS, byDefault: `"3m"`},
		{key: "rate", verdict: Changed, note: "npctl's rate also counts reads; its default suits the limits of EC2", anchor: toAWS},
		{key: "post-upload-hook", attr: "post_upload_hook", read: text, anchor: toAWS},
		{key: "image-import-timeout", attr: "upload_timeout", read: seconds, anchor: toAWS},
		{key: "image-format"},
		{key: "object-storage", attr: "bucket", read: bucketName, anchor: toAWS},
		{key: "diskimages"}, {key: "cloud-images"},
	}, launchFields),
	inherited: slices.Concat(limitFields, awsAddressFields),
	cloudImage: slices.Concat([]field{
		{key: "image-id", attr: "image_id", read: text, anchor: toAWS},
		{key: "image-filters", attr: "filters", read: imageFilters, anchor: toAWS},
	}, loginFields),
	image: slices.Concat([]field{
		{key: "pause", attr: "pause", read: boolean, anchor: toAWS},
		{key: "architecture", attr: "architecture", read: text, anchor: toAWS},
		{key: "ena-support", attr: "ena_support", read: boolean, anchor: toAWS},
		{key: "imds-support", attr: "imds_support", read: text, anchor: toAWS},
		{key: "tags", attr: "properties", read: textMap, anchor: toAWS},
		{key: "import-method"},
	}, awsVolumeFields, loginFields),
	pool: slices.Concat([]field{
		{key: "availability-zone", attr: "availability_zones", read: texts, anchor: toAWS},
		{key: "subnet-id", attr: "subnet_ids", read: texts, anchor: toAWS},
		{key: "security-group-id", attr: "security_group_ids", read: texts, anchor: toAWS},
		{key: "public-ip-address", attr: "public_ipv4", read: boolean, anchor: toAWS},
		{key: "labels"},
	}, awsAddressFields, limitFields, poolFields),
	label: slices.Concat([]field{
		{key: "instance-type", attr: "instance_types", read: texts, anchor: toAWS},
		{key: "key-name", attr: "key_name", read: text, anchor: toAWS},
		{key: "ebs-optimized", attr: "ebs_optimized", read: boolean, anchor: toAWS},
		{key: "userdata", attr: "userdata", read: text, anchor: toAWS},
		{key: "tags", attr: "tags", read: textMap, anchor: toAWS},
		{key: "dynamic-tags", attr: "request_properties", read: textMap, note: "labels are separated by commas, requestor data is JSON, times are whole seconds", anchor: toAWS},
		{key: "imdsv2", attr: "imdsv2", read: text, anchor: toAWS},
		{key: "fleet"}, {key: "use-spot"}, {key: "iam-instance-profile"},
		{key: "dedicated-host", attr: "dedicated_host", read: boolean, anchor: toAWS},
		{key: "diskimage"}, {key: "cloud-image"}, {key: "name"},
	}, awsVolumeFields),
	check: (*provider).awsLabel,
	checkProvider: func(p *provider, n *node, b *block) {
		p.supported(n.get("image-format"), b, "image_format", "raw", "vhd", "vmdk", "vhdx", "ova")
	},
	// Nodepool's default import method is that through the bucket.
	checkImage: func(p *provider, provider, n *node, b *block) {
		p.supported(n.get("import-method"), b, "import_method", "snapshot", "image", "ebs-direct")
		if provider.get("object-storage").set() && n.get("import-method") == nil {
			b.set("import_method", `"snapshot"`)
		}
	},
}

// supported translates a text of which npctl has some values.
func (p *provider) supported(e *entry, b *block, attr string, accepted ...string) {
	if !e.set() {
		return
	}
	if v := e.value; v.kind == scalarNode && !hasEnv(v) && !slices.Contains(accepted, v.text) {
		note := "npctl has " + strings.Join(accepted, ", ")
		p.note(e, Unsupported, note, toAWS)
		b.remark(p.withNote(e, Unsupported, note)...)
		return
	}
	p.attribute(e, b, attr, text)
	p.note(e, Converted, "", toAWS)
}

func bucketName(t *translator, n *node) (string, bool) {
	name := n.get("bucket-name")
	if !name.set() {
		return t.wrong(n, "a mapping with bucket-name")
	}
	return text(t, name.value)
}

// imageFilters reads the filters of EC2, a list of names with values.
func imageFilters(t *translator, n *node) (string, bool) {
	if n.kind != listNode {
		return t.wrong(n, "a list of filters")
	}
	var elements []element
	for _, it := range n.items {
		name, values := cmp.Or(it.get("name"), it.get("Name")), cmp.Or(it.get("values"), it.get("Values"))
		if it.kind != mappingNode || name == nil || name.value.kind != scalarNode || values == nil {
			t.fail(it, "a filter has a name and values")
			return "", false
		}
		expr, ok := texts(t, values.value)
		if !ok {
			return "", false
		}
		elements = append(elements, element{key: mapKey(name.value.text), expr: expr, head: append(t.comments(it), append(t.allComments(name), t.allComments(values)...)...)})
	}
	return collection(elements, true), true
}

// awsLabel translates the nested keys of a label, and those with another form.
func (p *provider) awsLabel(n *node, b *block) {
	if e := n.get("dynamic-tags"); e != nil {
		p.checkTemplates(e, b)
	}
	for _, key := range []string{"tags", "dynamic-tags"} {
		p.withoutNameTag(n.get(key), b)
	}
	if fleet := n.get("fleet"); fleet.set() {
		if one := n.get("instance-type"); one != nil {
			const note = "Nodepool uses the instance-types of the fleet"
			p.mark(one, NoEffect, note, toAWS)
			b.remark(p.withNote(one, NoEffect, note)...)
		}
		if types := fleet.value.get("instance-types"); types != nil {
			p.attribute(types, b, "instance_types", texts)
		}
		if strategy := fleet.value.get("allocation-strategy"); strategy != nil {
			p.attribute(strategy, b, "allocation_strategy", text)
		}
		p.mark(fleet, Converted, "", toAWS)
	}
	if profile := n.get("iam-instance-profile"); profile.set() {
		for _, e := range profile.value.entries {
			p.attribute(e, b, "iam_instance_profile", text)
		}
		p.mark(profile, Converted, "", toAWS)
	}
	if spot := n.get("use-spot"); spot != nil {
		p.attribute(spot, b, "market_type", func(t *translator, n *node) (string, bool) {
			expr, ok := boolean(t, n)
			switch expr {
			case "true":
				return `"spot"`, ok
			case "false":
				return `"on-demand"`, ok
			default:
				return expr + ` ? "spot" : "on-demand"`, ok
			}
		})
		p.note(spot, Converted, "", toAWS)
	}
}

// withoutNameTag removes the tag Name, which Nodepool overwrites with the name of the instance.
func (p *provider) withoutNameTag(tags *entry, b *block) {
	if tags == nil {
		return
	}
	if e := tags.value.get("Name"); e != nil {
		p.mark(e, NoEffect, "Nodepool and npctl set the tag Name to the name of the instance", toAWS)
		b.remark(p.allComments(e)...)
		tags.value.entries = slices.DeleteFunc(slices.Clone(tags.value.entries), func(other *entry) bool { return other == e })
	}
}

var gceAddressFields = []field{
	{key: "use-internal-ip", attr: "use_internal_ip", read: boolean, anchor: toGCE},
	{key: "host-key-checking", attr: "host_key_checking", read: boolean, anchor: toGCE},
}

var gceCloud = cloud{
	provider: slices.Concat([]field{
		{key: "project", attr: "project", read: text, anchor: toGCE},
		{key: "region", attr: "region", read: text, anchor: toGCE},
		{key: "boot-timeout", attr: "boot_timeout", read: seconds, anchor: toGCE, byDefault: `"1m"`},
		{key: "rate", verdict: Changed, note: "npctl's rate counts operations of the driver; its default suits the limits of Google", anchor: toGCE},
		{key: "rate-limit", verdict: NoEffect, note: "Nodepool ignores it", anchor: toGCE},
		{key: "cloud-images"},
	}, launchFields),
	inherited: []field{{key: "zone", attr: "zones", read: texts, anchor: toGCE}},
	cloudImage: slices.Concat([]field{
		{key: "image-id", attr: "image_id", read: text, anchor: toGCE},
		{key: "image-project"}, {key: "image-family"}, {key: "key"},
	}, loginFields),
	image: []field{},
	pool:  slices.Concat([]field{{key: "labels"}}, gceAddressFields, limitFields, poolFields),
	label: []field{
		{key: "instance-type", attr: "machine_types", read: texts, anchor: toGCE},
		{key: "volume-type", attr: "volume_type", read: text, anchor: toGCE, byDefault: `"pd-standard"`},
		{key: "volume-size", attr: "volume_size", read: integer, anchor: toGCE, byDefault: "10"},
		{key: "cloud-image"}, {key: "name"},
	},
}

// gceImage translates the keys of an image that have another form: its family, and the key of its user, which is an
// attribute of the labels that use the image.
func (p *provider) gceImage(im *image) {
	project, family := im.n.get("image-project"), im.n.get("image-family")
	if family.set() {
		p.attribute(family, im.b, "filters", func(t *translator, n *node) (string, bool) {
			expr, ok := text(t, n)
			elements := []element{{key: "family", expr: expr}}
			if project.set() {
				of, isText := text(t, project.value)
				elements, ok = append(elements, element{key: "project", expr: of, head: t.allComments(project)}), ok && isText
			}
			return collection(elements, true), ok
		})
		p.mark(family, Converted, "", toGCE)
	}
	if project.set() {
		p.mark(project, Converted, "", toGCE)
	}
	key, user := im.n.get("key"), im.n.get("username")
	if !key.set() {
		return
	}
	if _, ok := text(p.translator, key.value); !ok || !user.set() || user.value.kind != scalarNode {
		p.mark(key, NoEffect, "the image has no username", toGCE)
		return
	}
	im.sshKey = p.textExpr(user.value.text + ":" + key.value.text)
	p.note(key, Converted, "ssh_keys of the labels that use the image", toGCE)
	im.b.comment = append(im.b.comment, p.allComments(key)...)
}

// podFields are the resources of a pod, with a prefix for the defaults of a pool.
func podFields(prefix string) []field {
	var table []field
	for _, name := range []string{"cpu", "memory", "storage", "cpu-limit", "memory-limit", "storage-limit"} {
		table = append(table, field{key: prefix + name, attr: strings.ReplaceAll(name, "-", "_"), read: amount, anchor: toKubernetes})
	}
	return table
}

// amount reads a number, which may be a fraction.
func amount(t *translator, n *node) (string, bool) {
	if hasEnv(n) {
		return t.textExpr(n.text), true
	}
	if n.kind == scalarNode && plainNumber.MatchString(n.text) && !strings.HasPrefix(n.text, "-") {
		return n.text, true
	}
	return integer(t, n)
}

func kubernetesCloud() cloud {
	c := clusterCloud()
	c.inherited = slices.DeleteFunc(slices.Clone(c.inherited), func(f field) bool { return f.key == "max-servers" })
	c.provider = append(c.provider, field{key: "max-servers", verdict: NoEffect, note: "Nodepool ignores it; set max_servers of the pools", anchor: toKubernetes})
	return c
}

func openshiftCloud() cloud {
	c := clusterCloud()
	c.inherited = append([]field{{key: "max-projects", attr: "max_servers", read: limit, anchor: toKubernetes}}, c.inherited...)
	c.label = append(c.label, field{key: "image-pull-secrets", attr: "image_pull_secrets", read: names, anchor: toKubernetes})
	return c
}

func openshiftPodsCloud() cloud {
	c := openshiftCloud()
	c.label = slices.Clone(c.label)
	i := slices.IndexFunc(c.label, func(f field) bool { return f.key == "type" })
	c.label[i] = field{key: "type", verdict: NoEffect, note: "nodes of the driver are always pods", anchor: toKubernetes}
	c.project = true
	c.provider = append(c.provider, field{key: "max-pods", verdict: NoEffect, note: "Nodepool ignores it; set max_servers of the pools", anchor: toKubernetes})
	return c
}

// project sets the project of a provider, which is the name of its pool in Nodepool.
func (p *provider) project(n *node) {
	for i, pool := range n.get("pools").unchecked() {
		name := pool.get("name")
		if name == nil || name.value.kind != scalarNode {
			continue
		}
		if i == 0 {
			p.b.set("project", p.textExpr(name.value.text))
			continue
		}
		of := projectProvider(p.b.name(), name.value.text)
		p.note(name, Changed, fmt.Sprintf("the pool is another project, so it is in the provider %q", of), toKubernetes)
	}
}

// projectProvider names the provider of a further project.
func projectProvider(provider, project string) string { return provider + "-" + project }

// splitProjects makes a provider of each pool that is another project than the first.
func splitProjects(providers []*block) []*block {
	var all []*block
	for _, b := range providers {
		all = append(all, b)
		pools := b.blocks("pool")
		if len(b.labels) == 0 || b.labels[0] != "openshiftpods" || len(pools) < 2 {
			continue
		}
		b.replace("pool", pools[:1])
		for _, pool := range pools[1:] {
			one := newBlock(b.kind, b.labels[0], projectProvider(b.name(), pool.name()))
			for _, it := range b.items {
				switch {
				case it.name == "project":
					one.set("project", quote(pool.name()))
				case it.name != "" && it.block == nil:
					one.set(it.name, it.expr)
				}
			}
			one.add(pool)
			all = append(all, one)
		}
	}
	return all
}

// clusterCloud returns the tables that all drivers for clusters share.
func clusterCloud() cloud {
	const anchor = toKubernetes
	return cloud{
		provider: slices.Concat([]field{
			{key: "context", attr: "context", read: text, anchor: anchor},
		}, launchFields),
		inherited: limitFields,
		pool: slices.Concat(podFields("default-label-"), []field{
			{key: "default-label-extra-resources", verdict: NoEffect, note: "Nodepool ignores it", anchor: anchor},
			{key: "labels"},
		}, limitFields, poolFields),
		label: slices.Concat([]field{
			{key: "type", attr: "type", read: text, anchor: anchor},
			{key: "image", attr: "image", read: text, anchor: anchor},
			{key: "image-pull", attr: "image_pull", read: text, anchor: anchor},
			{key: "python-path", attr: "python_path", read: text, anchor: anchor},
			{key: "shell-type", attr: "shell_type", read: text, anchor: anchor},
			{key: "gpu", attr: "gpu", read: amount, anchor: anchor},
			{key: "gpu-resource", attr: "gpu_resource", read: text, anchor: anchor},
			{key: "extra-resources", attr: "extra_resources", read: numbers, anchor: anchor},
			{key: "env", attr: "env", read: variables, anchor: anchor},
			{key: "node-selector", attr: "node_selector", read: textMap, anchor: anchor},
			{key: "scheduler-name", attr: "scheduler_name", read: text, anchor: anchor},
			{key: "privileged", attr: "privileged", read: boolean, anchor: anchor},
			{key: "volumes", attr: "volumes", read: jsonText, anchor: anchor},
			{key: "volume-mounts", attr: "volume_mounts", read: jsonText, anchor: anchor},
			{key: "labels", attr: "labels", read: textMap, anchor: anchor},
			{key: "dynamic-labels", attr: "request_properties", read: textMap, note: "labels are separated by commas, requestor data is JSON, times are whole seconds", anchor: anchor},
			{key: "annotations", attr: "annotations", read: textMap, anchor: anchor},
			{key: "spec", attr: "spec", read: jsonText, anchor: anchor},
			{key: "name"},
		}, podFields("")),
		check: func(p *provider, n *node, b *block) {
			if e := n.get("dynamic-labels"); e != nil {
				p.checkTemplates(e, b)
			}
		},
	}
}

// variables reads a list of names with values.
func variables(t *translator, n *node) (string, bool) {
	if n.kind != listNode {
		return t.wrong(n, "a list of names with values")
	}
	var elements []element
	for _, it := range n.items {
		name, value := it.get("name"), it.get("value")
		if it.kind != mappingNode || name == nil || name.value.kind != scalarNode || value == nil || value.value.kind != scalarNode {
			t.fail(it, "a variable has a name and a value")
			return "", false
		}
		elements = append(elements, element{key: mapKey(name.value.text), expr: t.textExpr(asText(value.value)),
			head: append(t.comments(it), append(t.allComments(name), t.allComments(value)...)...)})
	}
	return collection(elements, true), true
}

var metastaticCloud = cloud{
	provider: slices.Concat([]field{
		{key: "boot-timeout", attr: "boot_timeout", read: seconds, anchor: toMetastatic, byDefault: `"2m"`},
		{key: "rate", verdict: NoEffect, note: "the driver makes no calls to a cloud", anchor: toMetastatic},
	}, launchFields),
	pool: slices.Concat([]field{
		{key: "max-servers", attr: "max_servers", read: limit, anchor: toMetastatic},
		{key: "host-key-checking", attr: "host_key_checking", read: boolean, anchor: toMetastatic},
		{key: "labels"},
	}, poolFields),
	label: []field{
		{key: "backing-label", attr: "backing_label", read: text, anchor: toMetastatic},
		{key: "max-parallel-jobs", attr: "max_parallel_jobs", read: integer, anchor: toMetastatic},
		{key: "grace-time", attr: "grace_time", read: seconds, anchor: toMetastatic},
		{key: "min-retention-time", attr: "min_retention_time", read: seconds, anchor: toMetastatic},
		{key: "max-age", attr: "max_age", read: seconds, anchor: toMetastatic},
		{key: "host-key-checking", attr: "host_key_checking", read: boolean, anchor: toMetastatic},
		{key: "name"},
	},
	check: func(p *provider, n *node, _ *block) {
		if e := n.get("backing-label"); e != nil && e.value.kind == scalarNode && !hasEnv(e.value) && !p.known[e.value.text] {
			p.unknown(e.value, "label", e.value.text, sortedKeys(p.known))
		} else if e == nil {
			p.fail(n, "the label %s has no backing-label", fmt.Sprintf("%q", n.get("name").value.text))
		}
	},
}
