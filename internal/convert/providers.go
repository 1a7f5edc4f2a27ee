package convert

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	words "github.com/npctl/npctl/internal/text"
)

// provider translates one provider.
type provider struct {
	*translator
	driverTables
	images      *images
	source      *node
	b           *block
	driver      string
	cloudImages map[string]*image
	diskimages  map[string]*image // the provider's own settings of images
	used        map[string]bool   // diskimages of labels
}

// fakeDriver is the driver of Nodepool's own tests.
const fakeDriver = "fake"

// driverOf returns the driver of a provider. Nodepool uses its fake driver for some names.
func driverOf(n *node) string {
	if strings.HasPrefix(n.textOf("name"), fakeDriver) {
		return fakeDriver
	}
	if e := n.get("driver"); e.set() {
		return e.value.text
	}
	return "openstack"
}

func (p *provider) translate(n *node) {
	name := p.b.labels[0]
	p.source = n
	if e := n.get("driver"); e.set() {
		if _, ok := text(p.translator, e.value); !ok {
			return
		}
		p.note(e, Converted, "", toEvery)
	}
	p.driver = driverOf(n)
	p.b.labels = []string{p.driver, name}
	tables, known := p.drivers[p.driver]
	switch {
	case known:
		p.driverTables = tables
		p.convert(n)
	case p.driver == fakeDriver:
		p.notConverted(n, name, `driver "fake" of Nodepool is for its own tests; npctl's is "sandbox"`)
	default:
		drivers := sortedKeys(p.drivers)
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

// convert translates the provider by the tables of its driver.
func (p *provider) convert(n *node) {
	provider := p.provider.of(n)
	p.fields(provider, p.b)
	p.required(provider, p.b, fmt.Sprintf("provider %q", p.b.name()))
	p.maxConcurrency(n)
	others := []string{"name", "driver", "pools", "max-concurrency"}
	p.diskimages, p.cloudImages, p.used = map[string]*image{}, map[string]*image{}, map[string]bool{}
	var own []*block
	if p.Image != nil {
		own = p.blocks(n.get("diskimages"), "diskimage", "image", strictName, p.ownImage)
		others = append(others, "diskimages")
	}
	if p.CloudImage != nil {
		p.b.add(p.blocks(n.get("cloud-images"), "cloud-image", "cloud_image", anyName, p.ownCloudImage)...)
		others = append(others, "cloud-images")
	}
	if p.Project != "" {
		p.projects(n)
	}
	pools := p.blocks(n.get("pools"), "pool", "pool", strictName, p.convertPool)
	for _, k := range p.ofPools.rows {
		if e := p.ofPools.of(n).at(k.Key); e != nil && !e.done && (e.value.kind != mappingNode || !p.ofPools.isOuter(k.Key)) {
			p.note(e, NoEffect, "each pool has its own value", p.ofPools.link(k))
			p.b.remark(p.allComments(e)...)
		}
	}
	p.addImages(own)
	p.b.add(pools...)
	p.rest(n, p.b, slices.Concat(p.provider.rows, p.ofPools.rows), others...)
}

// maxConcurrency omits the values that mean no limit.
func (p *provider) maxConcurrency(n *node) {
	e := n.get("max-concurrency")
	if !e.set() || e.done {
		return
	}
	value, ok := e.value.whole()
	if !ok || value > 0 {
		p.attribute(e, e.value, p.b, "max_concurrency", integer)
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

// ownImage translates the settings of the provider for an image.
func (p *provider) ownImage(n *node, b *block) {
	name := b.labels[0]
	if p.images.all[name] == nil {
		p.unknown(n.get("name").value, "diskimage", name, p.images.order)
	}
	p.diskimages[name] = p.image(n, b, p.driverTables.image, p.imageOfLabels)
}

func (p *provider) ownCloudImage(n *node, b *block) {
	name := b.labels[0]
	b.labels[0] = blockName(name)
	p.cloudImages[name] = p.image(n, b, p.cloudImage, p.cloudOfLabels)
	_, id := b.get("image_id")
	_, byName := b.get("image_name")
	_, named := p.cloudImage.known["image_name"]
	switch {
	case id && byName:
		p.fail(n, "the cloud-image %q has both image-id and image-name", name)
	case named && !id && !byName && b.labels[0] != name:
		b.set("image_name", quote(name))
	}
}

// image translates the keys that all images of a provider have. ofLabels has the keys for attributes of labels.
func (p *provider) image(n *node, b *block, tab, ofLabels table) *image {
	p.fields(tab.in(p.source, n), b)
	if typ, _ := b.get("connection_type"); typ == `"psrp"` { // npctl has another default
		b.setDefault("connection_port", "22")
	}
	for _, k := range ofLabels.rows {
		e := n.get(k.Key)
		if !e.set() {
			continue
		}
		verdict, note := verdictOf(k), k.Note
		if _, missing := template(n, k, e.value); k.Text != "" && missing != "" {
			verdict, note = NoEffect, "the image has no "+missing
		}
		p.note(e, verdict, note, ofLabels.link(k))
		b.comment = append(b.comment, p.allComments(e)...)
	}
	p.rest(n, b, slices.Concat(tab.rows, ofLabels.rows), "name")
	return &image{name: b.labels[0], n: n, b: b}
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

// blockName replaces the characters that npctl does not accept in a name.
func blockName(name string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if strictName.pattern.MatchString("_" + string(r)) {
			return r
		}
		return '-'
	}, name), "-")
}

func (p *provider) convertPool(n *node, b *block) {
	pool, provider := p.pool.of(n), p.ofPools.of(p.source)
	p.fields(pool, b, provider)
	for _, attr := range p.ofPools.names {
		if parts := p.find(attr, provider); len(parts) > 0 && b.item(attr) == nil {
			p.set(p.ofPools, b, parts)
		}
	}
	inner := "labels"
	if p.Node != nil {
		inner = "nodes"
		b.add(p.nodes(n)...)
	} else {
		b.add(p.blocks(n.get("labels"), "label", "label", looseName, p.convertLabel)...)
	}
	p.rest(n, b, p.pool.rows, "name", inner)
}

func (p *provider) convertLabel(n *node, b *block) {
	if name := b.labels[0]; !p.known[name] {
		p.unknown(n.get("name").value, "label", name, sortedKeys(p.known))
	}
	var others []string
	if p.Image != nil || p.CloudImage != nil {
		if p.LoadsUnserved && p.unserved(n, b) {
			return
		}
		p.labelImage(n, b)
		others = []string{"diskimage", "cloud-image"}
	}
	label := p.label.of(n)
	p.fields(label, b)
	p.required(label, b, "label")
	p.rest(n, b, p.label.rows, append(others, "name")...)
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
	p.keepAsComment(n, b, sentence, NoEffect, note, p.Guide)
	return true
}

// labelImage translates the reference of a label to its image, and the keys of the image that are attributes of labels.
func (p *provider) labelImage(n *node, b *block) {
	disk, cloud := n.get("diskimage"), n.get("cloud-image")
	kind, what, e, all, configs, tab := "diskimage", "diskimage", disk, p.images.all, p.diskimages, p.imageOfLabels
	switch {
	case disk != nil && cloud != nil:
		p.fail(n, "the label has both diskimage and cloud-image")
		return
	case cloud != nil:
		kind, what, e, all, configs, tab = "cloud_image", "cloud-image", cloud, p.cloudImages, p.cloudImages, p.cloudOfLabels
	case disk == nil:
		p.fail(n, "the label has neither diskimage nor cloud-image")
		return
	}
	if _, ok := text(p.translator, e.value); !ok {
		return
	}
	name := e.value.text
	im, own := all[name], configs[name]
	if im == nil {
		p.unknown(e.value, what, name, sortedKeys(all))
		return
	}
	if own == nil {
		p.fail(e.value, "the provider %q has no diskimage %q; add it to the diskimages of the provider", p.b.name(), name)
		return
	}
	p.used[name] = p.used[name] || e == disk
	p.attribute(e, e.value, b, "image", func(*translator, *node) (string, bool) { return ref(kind, im.name), true })
	p.note(e, Converted, "", p.Guide)
	from := []mapping{tab.of(own.n)}
	for at := im; e == disk && at != nil; at = p.images.all[at.parent] {
		from = append(from, tab.of(at.n))
	}
	for _, attr := range tab.names {
		if parts := p.find(attr, from...); len(parts) > 0 {
			if expr, ok := readerOf(tab.known[attr], parts[0].NodepoolKey)(p.translator, joined(parts)); ok {
				b.set(attr, expr)
			}
		}
	}
}

// nodes translates the static machines of a pool.
func (p *provider) nodes(pool *node) []*block {
	known := map[string]bool{}
	return p.blocks(pool.get("nodes"), "static node", "node", looseName, func(n *node, b *block) {
		p.fields(p.node.of(n), b)
		if typ, _ := b.get("connection_type"); typ == `"winrm"` || typ == `"psrp"` { // npctl has another default
			b.setDefault("connection_port", "22")
		}
		name := b.labels[0]
		if n.get("labels") == nil {
			p.fail(n, "the static node %q has no labels", name)
		}
		p.rest(n, b, p.node.rows, "name")
		if known[name] { // another user or port of the same machine
			port, _ := b.get("connection_port")
			user, _ := b.get("username")
			b.labels[0] = name + "-" + blockName(strings.Trim(port+"-"+user, "-"))
			if known[b.labels[0]] {
				p.fail(n, "the pool has the node %q twice", name)
			}
			b.items = slices.Insert(b.items, 0, item{name: "address", expr: quote(name)})
		}
		known[b.labels[0]] = true
	})
}

// projects sets the project of a provider, which is the name of its pool in Nodepool.
func (p *provider) projects(n *node) {
	for i, pool := range n.get("pools").unchecked() {
		name := pool.get("name")
		if name == nil || name.value.kind != scalarNode {
			continue
		}
		if i == 0 {
			p.b.set(p.Project, p.textExpr(name.value.text))
			continue
		}
		of := projectProvider(p.b.name(), name.value.text)
		p.note(name, Changed, fmt.Sprintf("the pool is another project, so it is in the provider %q", of), p.Guide)
	}
}

// projectProvider names the provider of a further project.
func projectProvider(provider, project string) string { return provider + "-" + project }

// splitProjects makes a provider of each pool that is another project than the first.
func (t *translator) splitProjects(providers []*block) []*block {
	var all []*block
	for _, b := range providers {
		all = append(all, b)
		pools := b.blocks("pool")
		if len(b.labels) == 0 || t.drivers[b.labels[0]].Project == "" || len(pools) < 2 {
			continue
		}
		project := t.drivers[b.labels[0]].Project
		b.replace("pool", pools[:1])
		for _, pool := range pools[1:] {
			one := newBlock(b.kind, b.labels[0], projectProvider(b.name(), pool.name()))
			for _, it := range b.items {
				switch {
				case it.name == project:
					one.set(project, quote(pool.name()))
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
