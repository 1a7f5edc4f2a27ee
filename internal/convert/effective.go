package convert

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/npctl/npctl/resources/schema"
)

// effectiveModel returns the values in effect in Nodepool's launcher and builder, after defaults, inheritance, merges and the secure
// file. env looks up the environment variables in both files.
func effectiveModel(in Input, env func(string) (string, bool)) (model, error) {
	t := newTranslator(in.Drivers)
	t.known = nil
	root := t.read(source{name: in.Name, text: in.YAML, env: env})
	secure := t.read(source{name: in.SecureName, text: in.Secure, env: env, secure: true})
	if root.kind != mappingNode {
		t.fail(root, "the file must be a mapping")
	}
	if err := t.err(); err != nil {
		return nil, err
	}
	e := effective{translator: t, model: model{}, images: map[string]*node{}}
	e.global(root, secure)
	if err := e.diskimages(root, secure); err != nil {
		return nil, err
	}
	for _, label := range root.get("labels").namedItems() {
		path := under("", "label", label.textOf("name"))
		e.put(path, label.line, labelTable.of(label))
		value, at := any(0.0), label.get("min-ready")
		if at.set() { // Nodepool skips labels with less than one
			value = valueOf(maxServers, schema.NodepoolKey{}, at.value)
		}
		e.model.put(path, "min-ready", maxServers, value, lineOf(at, label), at.set())
	}
	for _, p := range root.get("providers").namedItems() {
		e.provider(p)
	}
	e.imagesInEffect(unbuiltParents(root))
	return e.model, nil
}

// effective collects the values in effect.
type effective struct {
	*translator
	model  model
	images map[string]*node // diskimages that are not abstract, with the values of their parents
	dirs   []string         // of elements
}

// namedItems returns the elements of a list that have a name.
func (e *entry) namedItems() []*node {
	var all []*node
	for _, it := range e.unchecked() {
		if it.get("name").set() {
			all = append(all, it)
		}
	}
	return all
}

func lineOf(e *entry, block *node) int {
	if e.set() {
		return e.line
	}
	return block.line
}

// put adds the attributes of a block. The mappings after the first one have defaults for it.
func (e *effective) put(path string, line int, from ...mapping) {
	var tables []table
	for _, m := range from {
		tables = append(tables, m.table)
	}
	e.putOnly(compared(tables...), path, line, from...)
}

// putOnly is put for some attributes.
func (e *effective) putOnly(attributes []string, path string, line int, from ...mapping) {
	var tables []table
	for _, m := range from {
		tables = append(tables, m.table)
	}
	for _, attr := range attributes {
		a, key, parts := attributeIn(tables, attr), keyOf(attr, tables...), e.find(attr, from...)
		if len(parts) > 0 {
			e.model.put(path, key, a, valueOf(a, parts[0].NodepoolKey, joined(parts)), parts[0].line, true)
			continue
		}
		byDefault := rowOf(attr, func(k row) bool { return k.Default != "" }, tables...)
		e.model.put(path, key, a, defaultOf(byDefault, a, from[0].provider), line, false)
	}
}

func (e *effective) global(root, secure *node) {
	e.put("", root.line, settingsTable.of(root))
	for _, tenant := range root.get("tenant-resource-limits").unchecked() {
		path := under("", "tenant", tenant.textOf("tenant-name"))
		e.put(path, tenant.line, tenantTable.of(tenant))
		others := map[string]string{}
		for _, other := range tenant.entries {
			if other.name != "tenant-name" && !slices.ContainsFunc(tenantTable.rows, func(k row) bool { return k.Key == other.name }) {
				others[other.name] = format(maxServers, numberOf(maxServers, other.value))
			}
		}
		e.model.put(path, "max-resources", schema.Attribute{}, others, tenant.line, len(others) > 0)
	}
	e.dirs = strings.FieldsFunc(root.textOf("elements-dir"), func(c rune) bool { return c == ':' })
	e.zookeeper(root, secure)
}

// zookeeper adds the connection. The secure file replaces the servers and the TLS section as a whole.
func (e *effective) zookeeper(root, secure *node) {
	in := func(key string) (*entry, int) { // a line of the secure file is no line of the main file
		if at := secure.get(key); at.set() {
			return at, 0
		}
		if at := root.get(key); at.set() {
			return at, at.line
		}
		return nil, 0
	}
	servers, line := in("zookeeper-servers")
	if servers == nil {
		return
	}
	var hosts []string
	chroot := ""
	for _, server := range servers.value.items {
		port := "2281"
		if at := server.get("port"); at.set() {
			port = at.value.pythonText()
		}
		if at := server.get("chroot"); at.set() {
			chroot = strings.Trim(at.value.pythonText(), "/")
		}
		hosts = append(hosts, net.JoinHostPort(strings.Trim(server.textOf("host"), "[]"), port))
	}
	e.model.put("", "zookeeper-servers", schema.Attribute{Name: "zookeeper-servers"}, hosts, line, true)
	e.model.put("", "zookeeper-servers.chroot", schema.Attribute{}, chroot, line, true)
	if tls, line := in("zookeeper-tls"); tls != nil {
		for _, k := range tlsTable.rows {
			e.model.put("zookeeper-tls.", k.Key, schema.Attribute{}, tls.value.textOf(k.Key), line, true)
		}
	}
	timeout, value := root.get("zookeeper-timeout"), any(10.0)
	if timeout.set() {
		value = numberOf(schema.Attribute{}, timeout.value)
	}
	e.model.put("", "zookeeper-timeout", schema.Attribute{}, value, lineOf(timeout, root), timeout.set())
}

// diskimages applies each chain of parents, first to last. Values that are not true in Python do not override, except
// delete-after-upload. The metadata is that of the image itself, and so are variables of the secure file.
func (e *effective) diskimages(root, secure *node) error {
	all := map[string]*node{}
	for _, it := range root.get("diskimages").namedItems() {
		all[it.textOf("name")] = it
	}
	for name, own := range all {
		if at := own.get("abstract"); at.set() && at.value.truthy() {
			continue
		}
		img := &node{src: own.src, y: own.y, kind: mappingNode, line: own.line}
		chain := []*node{own}
		for at := all[own.textOf("parent")]; at != nil && len(chain) <= len(all); at = all[at.textOf("parent")] {
			chain = append(chain, at)
		}
		for _, one := range slices.Backward(chain) {
			for _, at := range one.entries {
				if at.name != "metadata" || one == own {
					override(img, at)
				}
			}
		}
		e.images[name] = img
	}
	for _, it := range secure.get("diskimages").namedItems() {
		img, variables := e.images[it.textOf("name")], it.get("env-vars")
		if img == nil {
			return fmt.Errorf("secure file: there is no diskimage %q", it.textOf("name"))
		}
		if variables.set() {
			override(img, variables)
		}
	}
	return nil
}

// override adds a key of an image to those of its parents.
func override(img *node, at *entry) {
	before := img.get(at.name)
	switch {
	case !at.value.truthy() && (at.name != "delete-after-upload" || !at.set()):
		return
	case before == nil:
		copied := *at
		img.entries = append(img.entries, &copied)
		return
	case at.name == "elements" || at.name == "env-vars":
		merged := *before.value
		merged.items = append(slices.Clone(merged.items), at.value.items...)
		merged.entries = append(slices.Clone(merged.entries), at.value.entries...) // the last one with a name counts
		before.value = &merged
	default:
		before.value, before.line = at.value, at.line
	}
}

// imagesInEffect adds the images, without parents of which Nodepool builds only the children.
func (e *effective) imagesInEffect(unbuilt map[string]bool) {
	for name, img := range e.images {
		if unbuilt[name] {
			continue
		}
		path := under("", "diskimage", name)
		e.put(path, img.line, imageTable.of(img), dibTable.of(img))
		e.model.put(path, "elements-dir", listOfTexts, e.dirs, img.line, true)
	}
}

// provider adds a provider with its images and pools.
func (e *effective) provider(n *node) {
	driver, name := driverOf(n), n.textOf("name")
	tables, known := e.drivers[driver]
	if !known {
		return
	}
	p := effectiveProvider{e, tables, n, map[string]*node{}, map[string]*node{}}
	pools := n.get("pools").namedItems()
	if p.Project == "" {
		p.put(under("", "provider", name), driver, pools)
		return
	}
	for i := range max(1, len(pools)) { // each pool is a provider of its own
		of, project, own := name, "", pools[i:min(i+1, len(pools))]
		if len(own) > 0 {
			project = own[0].textOf("name")
		}
		if i > 0 {
			of = projectProvider(name, project)
		}
		p.put(under("", "provider", of), driver, own)
		p.model.put(under("", "provider", of), p.Project, schema.Attribute{Name: p.Project}, project, n.line, true)
	}
}

// effectiveProvider adds the attributes of one provider.
type effectiveProvider struct {
	*effective
	driverTables
	source      *node
	disk, cloud map[string]*node
}

func (p *effectiveProvider) put(path, driver string, pools []*node) {
	n := p.source
	p.model.put(path, "driver", schema.Attribute{}, driver, n.line, true)
	p.effective.put(path, n.line, p.driverTables.provider.of(n))
	limit, at := any(-1.0), n.get("max-concurrency")
	if at.set() {
		limit = numberOf(schema.Attribute{}, at.value)
	}
	p.model.put(path, "max-concurrency", schema.Attribute{}, limit, lineOf(at, n), at.set())
	for _, img := range n.get("diskimages").namedItems() {
		name := img.textOf("name")
		p.disk[name] = img
		p.upload(under(path, "diskimage", name), name, img)
	}
	for _, img := range n.get("cloud-images").namedItems() {
		p.cloud[img.textOf("name")] = img
		p.cloudImage(under(path, "cloud-image", blockName(img.textOf("name"))), img)
	}
	for _, pool := range pools {
		p.pool(path, pool)
	}
}

// upload adds the settings of an image, of which the diskimage has the others.
func (p *effectiveProvider) upload(path, name string, img *node) {
	p.putOnly(compared(p.image), path, img.line, p.image.in(p.source, img), uploadTable.of(p.images[name]))
	p.port(path, img, p.image.of(img))
}

// port adds the default of the port, which depends on the type of the connection.
func (p *effectiveProvider) port(path string, n *node, m mapping) {
	if key := keyOf("connection_port", m.table); len(p.find("connection_port", m)) == 0 {
		port := 22.0
		if n.textOf("connection-type") == "winrm" {
			port = 5986
		}
		p.model.put(path, key, schema.Attribute{}, port, n.line, false)
	}
}

func (p *effectiveProvider) cloudImage(path string, img *node) {
	m := p.driverTables.cloudImage.of(img)
	p.effective.put(path, img.line, m)
	p.port(path, img, m)
	if key := path + "image-name"; p.model[key].Text == none && len(p.find("image_id", m))+len(p.find("filters", m)) == 0 {
		p.model.put(path, "image-name", schema.Attribute{}, img.textOf("name"), img.line, false)
	}
}

func (p *effectiveProvider) pool(path string, pool *node) {
	var labels []*node
	for _, label := range pool.get("labels").namedItems() {
		ref := label.textOf("diskimage")
		if !p.LoadsUnserved || p.images[ref] == nil || p.disk[ref] != nil {
			labels = append(labels, label)
		}
	}
	nodes := pool.get("nodes").namedItems()
	if len(labels)+len(nodes) == 0 {
		return // no request can reach it
	}
	providerPath := path
	path = under(path, "pool", pool.textOf("name"))
	p.putOnly(p.ownOfPools(), path, pool.line, p.driverTables.pool.of(pool), p.ofPools.of(p.source))
	if v := p.model[path+"priority"]; !v.Set {
		v.Text = p.model[providerPath+"priority"].Text
		p.model[path+"priority"] = v
	}
	for _, label := range labels {
		p.label(under(path, "label", label.textOf("name")), pool, label)
	}
	for _, n := range nodes {
		p.machine(path, n)
	}
}

// label adds a label of a pool with the attributes of the pool and of its image that apply to it.
func (p *effectiveProvider) label(path string, pool, label *node) {
	var own, built, cloud *node
	if disk := label.get("diskimage"); disk.set() {
		own, built = p.disk[disk.value.text], p.images[disk.value.text]
		p.model.put(path, "image", schema.Attribute{}, "diskimage "+disk.value.text, disk.line, true)
	} else if at := label.get("cloud-image"); at.set() {
		cloud = p.cloud[at.value.text]
		p.model.put(path, "image", schema.Attribute{}, "cloud-image "+blockName(at.value.text), at.line, true)
	}
	p.putOnly(p.ofOffers(), path, label.line, p.driverTables.label.of(label), p.imageOfLabels.of(own), p.imageOfLabels.of(built),
		p.cloudOfLabels.of(cloud), p.driverTables.pool.of(pool), p.ofPools.of(p.source))
}

// machine adds a static node. Its identity is the host, the user and the port, as in the records of Nodepool.
func (p *effectiveProvider) machine(path string, n *node) {
	m := p.node.of(n)
	text := func(attr, byDefault string) string {
		if parts := p.find(attr, m); len(parts) > 0 {
			return joined(parts).pythonText()
		}
		return byDefault
	}
	user := rowOf("username", func(row) bool { return true }, m.table).Default
	identity := fmt.Sprintf("%s@%s:%s", text("username", user), n.textOf("name"), text("connection_port", "22"))
	path = under(path, "node", identity)
	p.putOnly(ofMachines(m.table), path, n.line, m)
}
