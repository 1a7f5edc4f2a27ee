package convert

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/npctl/npctl/internal/requestvalues"
	words "github.com/npctl/npctl/internal/text"
)

// provider translates one provider.
type provider struct {
	*translator
	images      *images
	source      *node
	b           *block
	driver      string
	cloudImages map[string]*image
	diskimages  map[string]*image // the provider's own settings of images
	used        map[string]bool   // diskimages of labels
}

func (p *provider) translate(n *node) {
	name := p.b.labels[0]
	p.source = n
	if e := n.get("driver"); e.set() {
		if _, ok := text(p.translator, e.value); !ok {
			return
		}
		p.driver = e.value.text
		p.note(e, Converted, "", toEvery)
	}
	if strings.HasPrefix(name, "fake") { // Nodepool uses the driver fake for this name
		p.driver = "fake"
	}
	p.b.labels = []string{p.driver, name}
	table, isCloud := clouds[p.driver]
	switch {
	case isCloud:
		p.cloud(n, table)
	case p.driver == "openstack":
		p.openstack(n)
	case p.driver == "static":
		p.static(n)
	case p.driver == "fake":
		p.notConverted(n, name, `driver "fake" of Nodepool is for its own tests; npctl's is "sandbox"`)
	default:
		drivers := slices.Concat([]string{"openstack", "static"}, sortedKeys(clouds))
		if words.Nearest(p.driver, drivers) != "" {
			p.unknown(n.get("driver").value, "driver", p.driver, drivers)
			return
		}
		p.notConverted(n, name, fmt.Sprintf("npctl convert does not know the driver %q", p.driver))
	}
}

// notConverted keeps the text of a provider as a comment.
func (p *provider) notConverted(n *node, name, note string) {
	p.keepAsComment(n, p.b, fmt.Sprintf("# The provider %q is not converted: %s. Keep it in Nodepool.", name, note), Unsupported, note, toEvery)
	for _, pool := range n.get("pools").unchecked() {
		for _, l := range pool.get("labels").unchecked() {
			if e := l.get("name"); e != nil && e.value.kind == scalarNode && !p.known[e.value.text] {
				p.unknown(e.value, "label", e.value.text, sortedKeys(p.known))
			}
		}
	}
}

// keepAsComment replaces a block with a sentence and the text of its list item as comments.
func (t *translator) keepAsComment(n *node, b *block, sentence string, verdict Verdict, note, anchor string) {
	b.kind, b.labels = "", nil
	b.comment = append(b.comment, sentence)
	for _, line := range sourceLines(n) {
		b.comment = append(b.comment, strings.TrimRight("# | "+line, " "))
	}
	t.deep(n.y, 0) // the lines contain the comments
	for _, e := range n.entries {
		if e.done {
			t.amend(e, verdict, note, anchor)
		}
		t.mark(e, verdict, note, anchor)
	}
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
	{key: "boot-timeout", attr: "boot_timeout", read: seconds, anchor: toOpenStack, byDefault: `"1m"`},
	{key: "launch-timeout", attr: "launch_timeout", read: seconds, anchor: toOpenStack},
	{key: "launch-retries", attr: "launch_attempts", read: integer, anchor: toOpenStack},
	{key: "rate", attr: "rate", read: rate, verdict: Changed, note: "npctl counts calls a second, Nodepool seconds between calls: the value is the inverse", anchor: toBehavior, byDefault: "1"},
	{key: "image-name-format", attr: "image_name_format", read: text, anchor: toOpenStack},
	{key: "post-upload-hook", attr: "post_upload_hook", read: text, anchor: toOpenStack},
	{key: "image-upload-timeout", attr: "upload_timeout", read: seconds, anchor: toOpenStack},
	{key: "priority", attr: "priority", read: integer, anchor: toEvery},
	{key: "nodepool-id", verdict: NoEffect, note: "Nodepool ignores it; npctl's ownership tags contain the lineage of the state", anchor: toOpenStack},
	{key: "clean-floating-ips", verdict: Changed, note: "npctl always deletes floating IPs with its own tags, and no others", anchor: toOpenStack},
	{key: "port-cleanup-interval", verdict: Changed, note: "npctl always deletes ports with its own tags, and no others", anchor: toOpenStack},
	{key: "max-concurrency"}, {key: "diskimages"}, {key: "cloud-images"}, {key: "pools"}, {key: "name"}, {key: "driver"},
}

func (p *provider) openstack(n *node) {
	if n.get("cloud") == nil {
		p.fail(n, "the provider %q has no cloud", p.b.labels[1])
	}
	p.fields(n, p.b, openstackFields)
	p.maxConcurrency(n)
	p.diskimages, p.cloudImages, p.used = map[string]*image{}, map[string]*image{}, map[string]bool{}
	own := p.blocks(n.get("diskimages"), "diskimage", "image", strictName, p.ownImage)
	p.b.add(p.blocks(n.get("cloud-images"), "cloud-image", "cloud_image", anyName, p.cloudImage)...)
	pools := p.blocks(n.get("pools"), "pool", "pool", strictName, p.openstackPool)
	p.addImages(own)
	p.b.add(pools...)
	p.rest(n, p.b, openstackFields)
}

// maxConcurrency omits the values that mean no limit.
func (p *provider) maxConcurrency(n *node) {
	e := n.get("max-concurrency")
	if !e.set() || e.done {
		return
	}
	value, ok := e.value.whole()
	if !ok || value > 0 {
		p.attribute(e, p.b, "max_concurrency", integer)
		p.note(e, Changed, "npctl counts steps that launch or delete nodes, Nodepool requests", toEvery)
		return
	}
	verdict, note := Converted, ""
	comments := p.allComments(e)
	if value == 0 {
		verdict, note = Changed, "npctl has no provider that accepts nothing; set max_servers = 0 in its pools"
		comments = append(comments, "# max-concurrency: 0 of nodepool.yaml: "+note)
	}
	p.note(e, verdict, note, toEvery)
	p.b.remark(comments...)
}

var providerImageFields = []field{
	{key: "pause", attr: "pause", read: boolean, anchor: toOpenStack},
	{key: "meta", attr: "properties", read: textMap, anchor: toOpenStack},
	{key: "connection-type", attr: "connection_type", read: text, anchor: toEvery},
	{key: "connection-port", attr: "connection_port", read: integer, anchor: toEvery},
	{key: "config-drive"}, {key: "name"},
}

// ownImage translates the settings of the provider for an image.
func (p *provider) ownImage(n *node, b *block) {
	name := b.labels[0]
	if p.images.all[name] == nil {
		p.unknown(n.get("name").value, "diskimage", name, p.images.order)
	}
	p.diskimages[name] = p.image(n, b, providerImageFields)
}

// image translates the keys that all images of a provider have.
func (p *provider) image(n *node, b *block, table []field) *image {
	im := &image{name: b.labels[0], n: n, b: b}
	p.fields(n, b, table)
	if typ, _ := b.get("connection_type"); typ == `"psrp"` { // npctl has another default
		b.setDefault("connection_port", "22")
	}
	if e := n.get("config-drive"); e.set() {
		im.configDrive, _ = boolean(p.translator, e.value)
		p.note(e, Converted, "config_drive of the labels that use the image", toOpenStack)
		b.comment = append(b.comment, p.allComments(e)...)
	}
	if p.driver == "gce" {
		p.gceImage(im)
	}
	p.rest(n, b, table)
	return im
}

// addImages adds the settings of the provider for images. npctl uploads the images of the labels, so only the others
// have to be listed.
func (p *provider) addImages(own []*block) {
	for _, b := range own {
		name := b.labels[0]
		if im := p.images.all[name]; im != nil && !p.used[name] && !im.abstract {
			b.items = slices.Insert(b.items, 0, item{name: "upload", expr: "true"})
		}
		if len(b.items) > 0 {
			p.b.add(b)
		} else if len(b.comment)+len(b.foot) > 0 {
			p.b.remark(append(append([]string{fmt.Sprintf("# diskimage %s:", name)}, b.comment...), b.foot...)...)
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

func (p *provider) cloudImage(n *node, b *block) {
	name := b.labels[0]
	b.labels[0] = blockName(name)
	p.cloudImages[name] = p.image(n, b, cloudImageFields)
	_, id := b.get("image_id")
	if _, byName := b.get("image_name"); id && byName {
		p.fail(n, "the cloud-image %q has both image-id and image-name", name)
	} else if !id && !byName && b.labels[0] != name {
		b.set("image_name", quote(name))
	}
}

// blockName replaces the characters that npctl does not accept in a name.
func blockName(name string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if strictName.pattern.MatchString("_" + string(r)) {
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
	{key: "auto-floating-ip", attr: "auto_floating_ip", read: boolean, anchor: toBehavior, byDefault: "true"},
	{key: "host-key-checking", attr: "host_key_checking", read: boolean, anchor: toOpenStack},
	{key: "labels"},
}, poolFields...)

func (p *provider) openstackPool(n *node, b *block) {
	p.fields(n, b, openstackPoolFields)
	b.add(p.blocks(n.get("labels"), "label", "label", looseName, p.openstackLabel)...)
	p.rest(n, b, openstackPoolFields)
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

func (p *provider) openstackLabel(n *node, b *block) {
	if name := b.labels[0]; !p.known[name] {
		p.unknown(n.get("name").value, "label", name, sortedKeys(p.known))
	}
	if p.unserved(n, b) {
		return
	}
	p.labelImage(n, b)
	if e := n.get("dynamic-instance-properties"); e != nil {
		p.checkTemplates(e, b)
	}
	p.fields(n, b, openstackLabelFields)
	if n.get("flavor-name") == nil && n.get("min-ram") == nil {
		p.fail(n, "the label has neither flavor-name nor min-ram")
	}
	p.rest(n, b, openstackLabelFields)
}

// checkTemplates leaves out templates that npctl rejects, such as {request.labels[0]}.
func (t *translator) checkTemplates(e *entry, b *block) {
	for _, property := range e.value.entries {
		if property.value.kind != scalarNode {
			continue
		}
		if err := requestvalues.Check(restoreEnv(property.value.text)); err != nil && !hasEnv(property.value) {
			note := fmt.Sprintf("property %q: %v", property.name, err)
			t.mark(e, Unsupported, note, toOpenStack)
			b.remark(t.withNote(e, Unsupported, note)...)
			return
		}
	}
}

// unserved keeps a label as a comment if the provider does not have its diskimage. Nodepool's driver openstack loads such
// a label, finds no upload of the image, and launches no node. The other drivers refuse the file.
func (p *provider) unserved(n *node, b *block) bool {
	disk := n.get("diskimage")
	if !disk.set() || disk.value.kind != scalarNode || n.get("cloud-image") != nil {
		return false
	}
	image := disk.value.text
	if p.images.all[image] == nil || p.diskimages[image] != nil {
		return false
	}
	note := fmt.Sprintf("Nodepool does not serve the label here, because the provider does not have the diskimage %q", image)
	sentence := fmt.Sprintf("# Label %q is not converted: %s.", b.labels[0], note)
	p.keepAsComment(n, b, sentence, NoEffect, note, toOpenStack)
	return true
}

func (p *provider) labelImage(n *node, b *block) {
	disk, cloud := n.get("diskimage"), n.get("cloud-image")
	kind, what, e, all, configs := "diskimage", "diskimage", disk, p.images.all, p.diskimages
	switch {
	case disk != nil && cloud != nil:
		p.fail(n, "the label has both diskimage and cloud-image")
		return
	case cloud != nil:
		kind, what, e, all, configs = "cloud_image", "cloud-image", cloud, p.cloudImages, p.cloudImages
	case disk == nil:
		p.fail(n, "the label has neither diskimage nor cloud-image")
		return
	}
	if _, ok := text(p.translator, e.value); !ok {
		return
	}
	name := e.value.text
	im := all[name]
	if im == nil {
		p.unknown(e.value, what, name, sortedKeys(all))
		return
	}
	if e == disk && configs[name] == nil {
		p.fail(e.value, "the provider %q has no diskimage %q; add it to the diskimages of the provider", p.b.name(), name)
		return
	}
	p.used[name] = p.used[name] || e == disk
	p.attribute(e, b, "image", func(*translator, *node) (string, bool) { return ref(kind, im.name), true })
	p.note(e, Converted, "", toOpenStack)
	if own := configs[name]; own != nil && own.configDrive != "" {
		b.set("config_drive", own.configDrive)
	}
	if own := configs[name]; own != nil && own.sshKey != "" {
		b.set("ssh_keys", "["+own.sshKey+"]")
	}
}
