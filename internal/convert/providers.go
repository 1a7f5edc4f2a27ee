package convert

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/npctl/npctl/internal/requestvalues"
)

// provider is one provider in translation.
type provider struct {
	name, driver string
	b            *block
	cloudImages  map[string]*image
	diskimages   map[string]*image // the provider's own settings of images
	order        []string          // of diskimages
	used         map[string]bool   // diskimages of labels
}

// driversWithout are the drivers of Nodepool that npctl does not have.
var driversWithout = []string{"aws", "azure", "gce", "ibmvpc", "kubernetes", "metastatic", "openshift", "openshiftpods"}

func (c *converter) providers(root *node) {
	list := root.get("providers")
	for i, it := range c.list(list) {
		name, ok := c.name(it, "provider", false)
		if !ok {
			continue
		}
		p := &provider{name: name, driver: "openstack", cloudImages: map[string]*image{}, diskimages: map[string]*image{}, used: map[string]bool{}}
		if e := it.get("driver"); e != nil && e.value.kind != nullNode {
			if _, ok := text(c, e.value); !ok {
				continue
			}
			p.driver = e.value.text
			c.note(e, Converted, "", toEvery)
		}
		heading := c.heading(list, it, i == 0)
		switch {
		case strings.HasPrefix(name, "fake"):
			p.driver = "sandbox"
			c.openstack(p, it)
		case p.driver == "openstack":
			c.openstack(p, it)
		case p.driver == "static":
			c.static(p, it)
		case slices.Contains(driversWithout, p.driver):
			c.unsupportedProvider(p, it)
		default:
			c.unknown(it.get("driver").value, "driver", p.driver, append([]string{"openstack", "static"}, driversWithout...))
			continue
		}
		p.b.comment = append(heading, p.b.comment...)
		p.b.foot = append(p.b.foot, c.leftComments(it)...)
		c.out.providers = append(c.out.providers, p.b)
	}
}

// unsupportedProvider keeps the text of a provider as a comment.
func (c *converter) unsupportedProvider(p *provider, n *node) {
	note := fmt.Sprintf("npctl has no driver %q yet", p.driver)
	lines := []string{fmt.Sprintf("# The provider %q is not converted: %s. Keep it in Nodepool.", p.name, note)}
	for _, line := range sourceLines(n) {
		lines = append(lines, strings.TrimRight("# | "+line, " "))
	}
	c.deep(n.y, 0) // the lines contain the comments
	for _, e := range n.entries {
		e.done = e.name != "name" && e.name != "driver" && e.done
		if e.name == "name" || e.name == "driver" {
			c.amend(e, Unsupported, note, toEvery)
			continue
		}
		c.markEntry(e, Unsupported, note, toEvery)
	}
	for _, pool := range c.unchecked(n.get("pools")) {
		for _, l := range c.unchecked(pool.get("labels")) {
			if e := l.get("name"); e != nil && e.value.kind == scalarNode && !c.labels[e.value.text] {
				c.unknown(e.value, "label", e.value.text, sortedKeys(c.labels))
			}
		}
	}
	p.b = newBlock("")
	p.b.comment = lines
}

func (c *converter) unchecked(e *entry) []*node {
	if e == nil {
		return nil
	}
	return e.value.items
}

// sourceLines returns the lines of the input that define a list item: its first line and all that are indented more.
func sourceLines(n *node) []string {
	if n.y.Style&yaml.FlowStyle != 0 { // its line can contain other items
		text, err := yaml.Marshal(n.y)
		if err != nil {
			return nil
		}
		return strings.Split(strings.TrimSpace(restoreEnv(string(text))), "\n")
	}
	lines := strings.Split(string(n.src.text), "\n")
	first, indent := n.y.Line-1, n.y.Column-1
	if first < 0 || first >= len(lines) {
		return nil
	}
	last := first + 1
	for ; last < len(lines); last++ {
		trimmed := strings.TrimLeft(lines[last], " ")
		if trimmed != "" && len(lines[last])-len(trimmed) < indent {
			break
		}
	}
	for last > first+1 && strings.TrimSpace(lines[last-1]) == "" {
		last--
	}
	var out []string
	for i, line := range lines[first:last] {
		line = strings.TrimRight(line, "\r")
		cut := min(indent, len(line))
		if i > 0 {
			cut = min(cut, len(line)-len(strings.TrimLeft(line, " ")))
		}
		out = append(out, strings.ToValidUTF8(line[cut:], "?"))
	}
	return out
}

var openstackFields = []field{
	{key: "cloud", attr: "cloud", read: text, anchor: toOpenStack},
	{key: "region-name", attr: "region", read: text, anchor: toOpenStack},
	{key: "boot-timeout", attr: "boot_timeout", read: seconds, anchor: toOpenStack},
	{key: "launch-timeout", attr: "launch_timeout", read: seconds, anchor: toOpenStack},
	{key: "launch-retries", attr: "launch_attempts", read: integer, anchor: toOpenStack},
	{key: "rate", attr: "rate", read: rate, verdict: Changed, note: "npctl counts calls a second, Nodepool seconds between calls: the value is the inverse", anchor: toBehavior},
	{key: "image-name-format", attr: "image_name_format", read: text, anchor: toOpenStack},
	{key: "post-upload-hook", attr: "post_upload_hook", read: text, anchor: toOpenStack},
	{key: "image-upload-timeout", attr: "upload_timeout", read: seconds, anchor: toOpenStack},
	{key: "priority", attr: "priority", read: integer, anchor: toEvery},
	{key: "nodepool-id", verdict: NoEffect, note: "Nodepool ignores it; npctl's ownership tags contain the lineage of the state", anchor: toOpenStack},
	{key: "clean-floating-ips", verdict: Changed, note: "npctl always deletes floating IPs with its own tags, and no others", anchor: toOpenStack},
	{key: "port-cleanup-interval", verdict: Changed, note: "npctl always deletes ports with its own tags, and no others", anchor: toOpenStack},
	{key: "max-concurrency"}, {key: "diskimages"}, {key: "cloud-images"}, {key: "pools"}, {key: "name"}, {key: "driver"},
}

func (c *converter) openstack(p *provider, n *node) {
	p.b = newBlock("provider", p.driver, p.name)
	fields := openstackFields
	if p.driver == "sandbox" {
		fields = slices.Clone(fields)
		note := "Nodepool uses its fake driver for this name; npctl uses the sandbox"
		fields[0] = field{key: "cloud", verdict: NoEffect, note: note, anchor: toGlobal}
		fields[1] = field{key: "region-name", verdict: NoEffect, note: note, anchor: toGlobal}
		p.b.comment = append(p.b.comment, "# Nodepool uses its fake driver for a provider of this name. The sandbox has its own flavors and networks.")
	} else if n.get("cloud") == nil {
		c.fail(n, "the provider %q has no cloud", p.name)
	}
	c.fields(n, p.b, fields)
	c.maxConcurrency(n, p.b)
	c.nodepoolDefault(p.b, "boot_timeout", `"1m"`)
	c.nodepoolDefault(p.b, "rate", "1")
	c.readProviderImages(p, n)
	c.cloudImages(p, n)
	c.eachPool(p, n, c.openstackPool)
	c.imageBlocks(p)
	c.rest(n, p.b, keysOf(openstackFields))
	p.b.order()
}

// nodepoolDefault sets a default of Nodepool that differs from npctl's.
func (c *converter) nodepoolDefault(b *block, name, expr string) {
	if _, set := b.get(name); !set {
		b.items = append(b.items, item{name: name, expr: expr, beside: "# Nodepool's default"})
	}
}

// maxConcurrency omits the values that mean no limit.
func (c *converter) maxConcurrency(n *node, b *block) {
	e := n.get("max-concurrency")
	if e == nil || e.done || e.value.kind == nullNode {
		return
	}
	if !hasEnv(e.value) {
		value, ok := c.wholeNumber(e.value)
		if ok && value <= 0 {
			verdict, note := Converted, ""
			if value == 0 {
				verdict, note = Changed, "npctl has no provider that accepts nothing; set max_servers = 0 in its pools"
			}
			c.note(e, verdict, note, toEvery)
			b.remark(c.allComments(e)...)
			if note != "" {
				b.remark("# max-concurrency: 0 of nodepool.yaml: " + note)
			}
			return
		}
	}
	c.attribute(e, b, "max_concurrency", integer)
	c.note(e, Changed, "npctl counts steps that launch or delete nodes, Nodepool requests", toEvery)
}

var providerImageFields = []field{
	{key: "pause", attr: "pause", read: boolean, anchor: toOpenStack},
	{key: "meta", attr: "properties", read: textMap, anchor: toOpenStack},
	{key: "connection-type", attr: "connection_type", read: text, anchor: toEvery},
	{key: "connection-port", attr: "connection_port", read: integer, anchor: toEvery},
	{key: "config-drive"}, {key: "name"},
}

func (c *converter) readProviderImages(p *provider, n *node) {
	list := n.get("diskimages")
	for i, it := range c.list(list) {
		name, ok := c.name(it, "diskimage", false)
		if !ok {
			continue
		}
		if c.images[name] == nil {
			c.unknown(it.get("name").value, "diskimage", name, c.imageOrder)
			continue
		}
		im := &image{name: name, n: it, b: newBlock("image", name)}
		im.b.comment = c.heading(list, it, i == 0)
		c.fields(it, im.b, providerImageFields)
		c.connectionPort(im.b)
		c.readConfigDrive(im)
		c.rest(it, im.b, keysOf(providerImageFields))
		im.b.foot = c.leftComments(it)
		p.diskimages[name] = im
		p.order = append(p.order, name)
	}
}

// connectionPort writes the port of connection types for which the default differs.
func (c *converter) connectionPort(b *block) {
	if typ, _ := b.get("connection_type"); typ == `"psrp"` {
		c.nodepoolDefault(b, "connection_port", "22")
	}
}

func (c *converter) readConfigDrive(im *image) {
	e := im.n.get("config-drive")
	if e == nil || e.value.kind == nullNode {
		return
	}
	if expr, ok := boolean(c, e.value); ok {
		im.configDrive = expr
	}
	c.note(e, Converted, "config_drive of the labels that use the image", toOpenStack)
	if lines := c.allComments(e); len(lines) > 0 {
		im.b.comment = append(im.b.comment, lines...)
	}
}

// imageBlocks adds the settings of the provider for images. npctl uploads the images of the labels, so only the others
// have to be listed.
func (c *converter) imageBlocks(p *provider) {
	for _, name := range p.order {
		im := p.diskimages[name]
		if !p.used[name] && !c.images[name].abstract {
			im.b.items = slices.Insert(im.b.items, 0, item{name: "upload", expr: "true"})
		}
		if len(im.b.items) > 0 {
			p.b.add(im.b)
		} else if len(im.b.comment)+len(im.b.foot) > 0 {
			p.b.remark(append(append([]string{fmt.Sprintf("# diskimage %s:", name)}, im.b.comment...), im.b.foot...)...)
		}
	}
}

var cloudImageFields = []field{
	{key: "image-id", attr: "image_id", read: text, anchor: toOpenStack},
	{key: "image-name", attr: "image_name", read: text, anchor: toOpenStack},
	{key: "username", attr: "username", read: text, anchor: toOpenStack},
	{key: "python-path", attr: "python_path", read: text, anchor: toOpenStack},
	{key: "shell-type", attr: "shell_type", read: text, anchor: toOpenStack},
	{key: "connection-type", attr: "connection_type", read: text, anchor: toEvery},
	{key: "connection-port", attr: "connection_port", read: integer, anchor: toEvery},
	{key: "config-drive"}, {key: "name"},
}

func (c *converter) cloudImages(p *provider, n *node) {
	list := n.get("cloud-images")
	for i, it := range c.list(list) {
		e := it.get("name")
		if e == nil || e.value.kind != scalarNode || e.value.text == "" || hasEnv(e.value) {
			c.fail(it, "the cloud-image has no name")
			continue
		}
		c.note(e, Converted, "", toOpenStack)
		name := blockName(e.value.text)
		im := &image{name: name, n: it, b: newBlock("cloud_image", name)}
		im.b.comment = c.heading(list, it, i == 0)
		c.fields(it, im.b, cloudImageFields)
		_, id := im.b.get("image_id")
		if _, byName := im.b.get("image_name"); id && byName {
			c.fail(it, "the cloud-image %q has both image-id and image-name", e.value.text)
		} else if !id && !byName && name != e.value.text {
			im.b.set("image_name", quote(e.value.text))
		}
		c.connectionPort(im.b)
		c.readConfigDrive(im)
		c.rest(it, im.b, keysOf(cloudImageFields))
		im.b.foot = c.leftComments(it)
		p.cloudImages[e.value.text] = im
		p.b.add(im.b)
	}
}

// blockName replaces the characters that npctl does not accept in a name.
func blockName(name string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if plainName.MatchString("_" + string(r)) {
			return r
		}
		return '-'
	}, name), "-")
}

var poolFields = []field{
	{key: "priority", attr: "priority", read: integer, anchor: toEvery},
	{key: "node-attributes", attr: "node_attributes", read: textMap, anchor: toEvery},
	{key: "name"},
}

var openstackPoolFields = append([]field{
	{key: "max-servers", attr: "max_servers", read: limit, anchor: toEvery},
	{key: "max-cores", attr: "max_cores", read: limit, anchor: toOpenStack},
	{key: "max-ram", attr: "max_ram", read: limit, anchor: toOpenStack},
	{key: "max-volumes", attr: "max_volumes", read: limit, anchor: toOpenStack},
	{key: "max-volume-gb", attr: "max_volume_gb", read: limit, anchor: toOpenStack},
	{key: "ignore-provider-quota", attr: "ignore_provider_quota", read: boolean, anchor: toOpenStack},
	{key: "availability-zones", attr: "availability_zones", read: texts, anchor: toOpenStack},
	{key: "networks", attr: "networks", read: names, anchor: toOpenStack},
	{key: "security-groups", attr: "security_groups", read: texts, anchor: toOpenStack},
	{key: "auto-floating-ip", attr: "auto_floating_ip", read: boolean, anchor: toBehavior},
	{key: "host-key-checking", attr: "host_key_checking", read: boolean, anchor: toOpenStack},
	{key: "labels"},
}, poolFields...)

// eachPool translates the pools of a provider.
func (c *converter) eachPool(p *provider, n *node, translate func(*provider, *node, *block)) {
	list := n.get("pools")
	if list == nil {
		return
	}
	for i, it := range c.list(list) {
		name, ok := c.name(it, "pool", false)
		if !ok {
			continue
		}
		b := newBlock("pool", name)
		b.comment = c.heading(list, it, i == 0)
		translate(p, it, b)
		b.order()
		b.foot = append(b.foot, c.leftComments(it)...)
		p.b.add(b)
	}
}

func (c *converter) openstackPool(p *provider, n *node, b *block) {
	c.fields(n, b, openstackPoolFields)
	c.nodepoolDefault(b, "auto_floating_ip", "true")
	if p.driver == "sandbox" {
		c.nodepoolDefault(b, "host_key_checking", "false")
	}
	list := n.get("labels")
	for i, it := range c.list(list) {
		name, ok := c.name(it, "label", true)
		if !ok {
			continue
		}
		if !c.labels[name] {
			c.unknown(it.get("name").value, "label", name, sortedKeys(c.labels))
			continue
		}
		l := newBlock("label", name)
		l.comment = c.heading(list, it, i == 0)
		c.openstackLabel(p, it, l)
		l.foot = c.leftComments(it)
		b.add(l)
	}
	c.rest(n, b, keysOf(openstackPoolFields))
}

var openstackLabelFields = []field{
	{key: "flavor-name", attr: "flavor", read: text, anchor: toOpenStack},
	{key: "min-ram", attr: "min_ram", read: integer, anchor: toOpenStack},
	{key: "boot-from-volume", attr: "boot_from_volume", read: boolean, anchor: toOpenStack},
	{key: "volume-size", attr: "volume_size", read: integer, anchor: toOpenStack},
	{key: "host-key-checking", attr: "host_key_checking", read: boolean, anchor: toOpenStack},
	{key: "networks", attr: "networks", read: names, anchor: toOpenStack},
	{key: "key-name", attr: "key_name", read: text, anchor: toOpenStack},
	{key: "instance-properties", attr: "instance_properties", read: textMap, anchor: toOpenStack},
	{key: "userdata", attr: "userdata", read: text, anchor: toOpenStack},
	{key: "console-log", verdict: NoEffect, note: "npctl always stores the console of a failed launch", anchor: toOpenStack},
	{key: "dynamic-instance-properties", attr: "request_properties", read: textMap, note: "labels are separated by commas, requestor data is JSON, times are whole seconds", anchor: toOpenStack},
	{key: "diskimage"}, {key: "cloud-image"}, {key: "name"},
}

func (c *converter) openstackLabel(p *provider, n *node, b *block) {
	c.labelImage(p, n, b)
	if e := n.get("dynamic-instance-properties"); e != nil {
		c.checkTemplates(e, b)
	}
	c.fields(n, b, openstackLabelFields)
	if n.get("flavor-name") == nil && n.get("min-ram") == nil {
		c.fail(n, "the label has neither flavor-name nor min-ram")
	}
	c.rest(n, b, keysOf(openstackLabelFields))
}

// checkTemplates leaves out templates that npctl rejects, such as {request.labels[0]}.
func (c *converter) checkTemplates(e *entry, b *block) {
	for _, property := range e.value.entries {
		if property.value.kind != scalarNode {
			continue
		}
		if err := requestvalues.Check(restoreEnv(property.value.text)); err != nil && !hasEnv(property.value) {
			note := fmt.Sprintf("property %q: %v", property.name, err)
			c.markEntry(e, Unsupported, note, toOpenStack)
			b.remark(c.withNote(e, Unsupported, note)...)
			return
		}
	}
}

func (c *converter) labelImage(p *provider, n *node, b *block) {
	disk, cloud := n.get("diskimage"), n.get("cloud-image")
	e := disk
	switch {
	case disk != nil && cloud != nil:
		c.fail(n, "the label has both diskimage and cloud-image")
		return
	case cloud != nil:
		e = cloud
	case disk == nil:
		c.fail(n, "the label has neither diskimage nor cloud-image")
		return
	}
	if _, ok := text(c, e.value); !ok {
		return
	}
	name, config := e.value.text, ""
	if e == disk {
		im := c.images[name]
		if im == nil {
			c.unknown(e.value, "diskimage", name, c.imageOrder)
			return
		}
		p.used[name] = true
		if own := p.diskimages[name]; own != nil {
			config = own.configDrive
		}
		c.attribute(e, b, "image", func(*converter, *node) (string, bool) { return ref("diskimage", name), true })
	} else {
		im := p.cloudImages[name]
		if im == nil {
			c.unknown(e.value, "cloud-image", name, sortedKeys(p.cloudImages))
			return
		}
		config = im.configDrive
		c.attribute(e, b, "image", func(*converter, *node) (string, bool) { return ref("cloud_image", im.name), true })
	}
	c.note(e, Converted, "", toOpenStack)
	if config != "" {
		b.set("config_drive", config)
	}
}
