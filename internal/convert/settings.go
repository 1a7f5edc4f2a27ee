package convert

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The anchors of docs/coming-from-nodepool.md.
const (
	toGlobal    = "global"
	toImages    = "disk-images"
	toEvery     = "every-provider-and-pool"
	toOpenStack = "openstack"
	toStatic    = "static-nodes"
	toBehavior  = "differences-in-behavior"
	toLabels    = "labels"
)

// secrets are the parts of the secure file.
type secrets struct {
	servers, tls *entry
	env          map[string]*entry // env-vars by image
}

func (c *converter) secure(root *node) secrets {
	s := secrets{env: map[string]*entry{}}
	if root == nil || root.kind == nullNode {
		return s
	}
	if root.kind != mappingNode {
		c.fail(root, "the secure file has to be a mapping")
		return s
	}
	s.servers, s.tls = root.get("zookeeper-servers"), root.get("zookeeper-tls")
	for _, it := range c.list(root.get("diskimages")) {
		name, ok := c.name(it, "diskimage", false)
		if !ok {
			continue
		}
		if e := it.get("env-vars"); e != nil {
			c.markEntry(e, Changed, secretEnvNote, toGlobal)
			s.env[name] = e
		}
		c.restSecure(it)
	}
	for _, e := range []*entry{s.servers, s.tls} {
		if e != nil {
			c.note(e, Converted, "", "")
		}
	}
	c.restSecure(root)
	return s
}

func (c *converter) restSecure(n *node) {
	for _, e := range n.entries {
		if !e.done {
			c.markEntry(e, NoEffect, "Nodepool reads only zookeeper-servers, zookeeper-tls and diskimages[].env-vars of the secure file", toGlobal)
		}
	}
}

var settingFields = []field{
	{key: "images-dir", attr: "images_dir", read: text},
	{key: "build-log-dir", attr: "build_log_dir", read: text},
	{key: "build-log-retention", attr: "build_log_retention", read: func(c *converter, n *node) (string, bool) {
		if hasEnv(n) {
			return integer(c, n)
		}
		value, ok := c.wholeNumber(n)
		return fmt.Sprint(max(value, -1)), ok
	}},
	{key: "max-hold-age", attr: "max_hold_age", read: seconds},
}

// settings translates the global keys into the npctl block.
func (c *converter) settings(root *node, s secrets) {
	b := newBlock("npctl")
	c.fields(root, b, settingFields)
	if _, set := b.get("build_log_dir"); !set && root.get("diskimages") != nil {
		b.items = append(b.items, item{name: "build_log_dir", expr: `"/var/log/nodepool/builds"`, beside: "# Nodepool's default"})
	}
	if e := root.get("elements-dir"); e != nil && e.value.kind != nullNode {
		c.elementsDir(e)
	}
	if e := root.get("webapp"); e != nil {
		c.webapp(e, b)
	}
	c.zookeeper(root, s, b)
	limits := root.get("tenant-resource-limits")
	for i, it := range c.list(limits) {
		name, ok := c.tenant(it)
		if !ok {
			continue
		}
		t := newBlock("tenant_limit", name)
		t.comment = c.heading(limits, it, i == 0)
		c.fields(it, t, tenantFields)
		for _, e := range it.entries {
			if !e.done {
				c.markEntry(e, Unsupported, "no driver of npctl counts this resource", toGlobal)
				t.remark(c.withNote(e, Unsupported, "no driver of npctl counts this resource")...)
			}
		}
		b.add(t)
	}
	if len(b.items) > 0 {
		b.order()
		c.out.settings = append(c.out.settings, b)
	}
}

// tenant reads the name of a tenant, which may contain any characters.
func (c *converter) tenant(n *node) (string, bool) {
	e := n.get("tenant-name")
	if e == nil || e.value.kind != scalarNode || e.value.text == "" || hasEnv(e.value) {
		c.fail(n, "the tenant limit has no tenant-name")
		return "", false
	}
	c.note(e, Converted, "", "")
	return e.value.text, true
}

var tenantFields = []field{
	{key: "max-servers", attr: "max_servers", read: limit}, {key: "max-cores", attr: "max_cores", read: limit},
	{key: "max-ram", attr: "max_ram", read: limit}, {key: "max-volumes", attr: "max_volumes", read: limit},
	{key: "max-volume-gb", attr: "max_volume_gb", read: limit},
}

func (c *converter) webapp(e *entry, b *block) {
	address, port := "0.0.0.0", "8005"
	for _, inner := range e.value.entries {
		if inner.value.kind == scalarNode {
			switch inner.name {
			case "listen_address", "listen-address":
				address = restoreEnv(inner.value.text)
			case "port":
				port = restoreEnv(inner.value.text)
			}
		}
	}
	note := fmt.Sprintf("an option of the daemon: npctl watch -nodepool-listen=%s:%s", address, port)
	b.remark(append(c.allComments(e), "# webapp: "+note)...)
	c.note(e, Changed, note, toGlobal)
	c.markAll(e.value, Changed, note, toGlobal)
}

func (c *converter) elementsDir(e *entry) {
	if e.value.kind != scalarNode {
		c.wrong(e.value, "a text")
		return
	}
	c.markEntry(e, Converted, "element_paths of each image without a parent", toGlobal)
	c.out.head = append(c.out.head, c.allComments(e)...)
	var parts []element
	for part := range strings.SplitSeq(e.value.text, ":") {
		if part != "" {
			parts = append(parts, element{expr: c.textExpr(part)})
		}
	}
	c.out.elements = collection(parts, false)
}

// zookeeper translates the servers. Values of the secure file become sensitive variables.
func (c *converter) zookeeper(root *node, s secrets, b *block) {
	servers, tls, timeout := root.get("zookeeper-servers"), root.get("zookeeper-tls"), root.get("zookeeper-timeout")
	main := [2]*entry{servers, tls}
	for i, e := range []*entry{s.servers, s.tls} {
		if e != nil && main[i] != nil {
			c.markEntry(main[i], NoEffect, "the secure file replaces it", toGlobal)
			b.remark(c.allComments(main[i])...)
		}
	}
	if s.servers != nil {
		servers = s.servers
	}
	if s.tls != nil {
		tls = s.tls
	}
	if servers == nil {
		for _, e := range []*entry{tls, timeout} {
			if e != nil {
				c.markEntry(e, NoEffect, "there are no zookeeper-servers, so npctl keeps its state in a file", toGlobal)
				if !e.value.src.secure {
					b.remark(c.allComments(e)...)
				}
			}
		}
		return
	}
	z := newBlock("state", "zookeeper")
	if !servers.value.src.secure {
		z.comment = c.heading(servers, servers.value, true)
	}
	c.servers(servers, z)
	if timeout != nil {
		c.attribute(timeout, z, "session_timeout", seconds)
		c.markEntry(timeout, Converted, "", toGlobal)
	}
	if tls != nil {
		c.tls(tls, z)
	}
	b.add(z)
}

func (c *converter) servers(servers *entry, z *block) {
	var hosts []element
	chroots := map[string]bool{}
	for _, it := range c.list(servers) {
		host, port, chroot := it.get("host"), it.get("port"), it.get("chroot")
		if host == nil || host.value.kind != scalarNode || host.value.text == "" {
			c.fail(it, "the server of ZooKeeper has no host")
			continue
		}
		c.note(host, Converted, "", "")
		address, number := host.value.text, "2281"
		if strings.Contains(address, ":") && !strings.HasPrefix(address, "[") {
			address = "[" + address + "]"
		}
		if port != nil && port.value.kind != nullNode {
			if expr, ok := integer(c, port.value); ok {
				if number = expr; hasEnv(port.value) {
					number = port.value.text
				}
			}
			c.note(port, Converted, "", "")
		}
		e := element{expr: c.textExpr(address + ":" + number)}
		if !servers.value.src.secure {
			e.head = c.deep(it.y, 0)
		}
		hosts = append(hosts, e)
		if chroot != nil && chroot.value.kind != nullNode {
			c.note(chroot, Converted, "", "")
			if _, ok := text(c, chroot.value); ok {
				chroots[chroot.value.text] = true
			}
		}
		if it.src.secure {
			c.restSecure(it)
		} else {
			c.rest(it, z, []string{"host", "port", "chroot"})
		}
	}
	if len(hosts) == 0 && len(c.errs) == 0 {
		c.fail(servers.value, "zookeeper-servers has no server")
	}
	if len(chroots) > 1 {
		c.fail(servers.value, "the servers of ZooKeeper have different values of chroot; npctl needs one")
	}
	c.secretAttribute(servers.value.src, z, "hosts", "zookeeper_hosts", "list(string)", "Servers of ZooKeeper.", collection(hosts, false))
	for chroot := range chroots {
		if chroot != "" {
			chroot = "/" + strings.Trim(chroot, "/")
		}
		c.secretAttribute(servers.value.src, z, "chroot", "zookeeper_chroot", "string", "Znode below which all data is stored.", c.textExpr(chroot))
	}
}

var tlsFields = []field{{key: "cert", attr: "cert", read: text}, {key: "key", attr: "key", read: text}, {key: "ca", attr: "ca", read: text}}

func (c *converter) tls(e *entry, z *block) {
	c.note(e, Changed, "npctl trusts only the certificates in ca; Nodepool trusts those of the system too", toGlobal)
	if e.value.kind != mappingNode {
		c.wrong(e.value, "a mapping")
		return
	}
	t := newBlock("tls")
	if !e.value.src.secure {
		head, beside, foot := c.keyComments(e)
		t.comment = append(append(head, c.comments(e.value)...), foot...)
		if beside != "" {
			t.comment = append(t.comment, beside)
		}
	}
	for _, inner := range e.value.entries {
		i := slices.IndexFunc(tlsFields, func(f field) bool { return f.key == inner.name })
		switch {
		case i < 0:
		case e.value.src.secure:
			if expr, ok := text(c, inner.value); ok {
				c.secretAttribute(e.value.src, t, inner.name, "zookeeper_"+inner.name, "string", "Path of a PEM file.", expr)
			}
			c.note(inner, Converted, "", "")
		default:
			c.attribute(inner, t, inner.name, text)
			c.note(inner, Converted, "", "")
		}
	}
	if e.value.src.secure {
		c.restSecure(e.value)
	} else {
		c.rest(e.value, t, keysOf(tlsFields))
	}
	if e.value.get("ca") != nil {
		t.items = append(t.items, item{name: "verify_host_names", expr: "false", beside: "# as Nodepool"})
	}
	z.add(t)
}

// secretAttribute sets an attribute. The value from the secure file moves to a sensitive variable.
func (c *converter) secretAttribute(src *source, b *block, attr, variable, typ, doc, expr string) {
	if !src.secure || strings.Contains(expr, "env(") {
		b.set(attr, expr)
		return
	}
	c.variable(variable, typ, doc)
	c.secretValue(variable, expr)
	b.set(attr, "var."+variable)
}

func (c *converter) variable(name, typ, doc string) {
	v := newBlock("variable", name)
	v.set("description", quote(doc+" The value is in "+SecretsFile+"."))
	v.set("type", typ)
	v.set("sensitive", "true")
	c.out.settings = append(c.out.settings, v)
}

func (c *converter) secretValue(name, expr string) {
	if len(c.out.secrets) == 0 {
		c.out.secrets = []*block{newBlock("")}
		c.out.secrets[0].comment = []string{"# Values from Nodepool's secure file. Keep this file out of version control.", ""}
	}
	c.out.secrets[0].set(name, expr)
}

var labelFields = []field{
	{key: "max-ready-age", attr: "max_ready_age", read: seconds},
}

func (c *converter) labelBlocks(root *node) {
	labels := root.get("labels")
	for i, it := range c.list(labels) {
		name, ok := c.name(it, "label", true)
		if !ok {
			continue
		}
		c.labels[name] = true
		b := newBlock("label", name)
		b.comment = c.heading(labels, it, i == 0)
		if e := it.get("min-ready"); e != nil && e.value.kind != nullNode {
			c.minReady(e, b)
		}
		c.fields(it, b, labelFields)
		c.rest(it, b, []string{"name", "min-ready", "max-ready-age"})
		b.foot = c.leftComments(it)
		c.out.labels = append(c.out.labels, b)
	}
}

func (c *converter) minReady(e *entry, b *block) {
	verdict, note := Converted, ""
	read := integer
	if !hasEnv(e.value) {
		if value, ok := c.wholeNumber(e.value); ok && value < -1 {
			verdict, note = Changed, "a negative number is the same as 0 in Nodepool: nodes are launched on request only"
			read = limit
		}
	}
	if len(c.errs) == 0 || e.value.kind == scalarNode {
		c.attribute(e, b, "min_ready", read)
	}
	c.note(e, verdict, note, toLabels)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
