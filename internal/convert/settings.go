package convert

import (
	"fmt"
	"maps"
	"slices"
)

// secrets are the parts of the secure file.
type secrets struct {
	servers, tls *entry
	env          map[string]*entry // env-vars by image
}

// secrets reads the secure file.
func (t *translator) secrets(root *node) secrets {
	s := secrets{env: map[string]*entry{}}
	if root == nil || root.kind == nullNode {
		return s
	}
	if root.kind != mappingNode {
		t.fail(root, "the secure file has to be a mapping")
		return s
	}
	s.servers, s.tls = root.get("zookeeper-servers"), root.get("zookeeper-tls")
	for _, it := range t.list(root.get("diskimages")) {
		name, ok := t.name(it, "diskimage", strictName)
		if !ok {
			continue
		}
		if e := it.get("env-vars"); e != nil {
			t.mark(e, Changed, secretEnvNote, toGlobal)
			s.env[name] = e
		}
		t.restSecure(it)
	}
	for _, e := range []*entry{s.servers, s.tls} {
		if e.set() {
			t.note(e, Converted, "", "")
		} else if e != nil {
			t.note(e, NoEffect, "the key has no value", "")
		}
	}
	t.restSecure(root)
	return s
}

func (t *translator) restSecure(n *node) {
	for _, e := range n.entries {
		if !e.done {
			t.mark(e, NoEffect, "Nodepool reads only zookeeper-servers, zookeeper-tls and diskimages[].env-vars of the secure file", toGlobal)
		}
	}
}

// settings translates the global keys into the npctl block.
func (t *translator) settings(o *output, root *node, s secrets) {
	b := newBlock("npctl")
	t.fields(settingsTable.of(root), b)
	if root.get("diskimages") == nil && root.get("build-log-dir") == nil { // nothing is built
		b.remove("build_log_dir")
	}
	if e := root.get("webapp"); e != nil {
		t.webapp(e, b)
	}
	(&zookeeper{t, o}).translate(root, s, b)
	b.add(t.blocks(root.get("tenant-resource-limits"), "tenant limit", "tenant_limit", tenantName, func(n *node, limits *block) {
		t.fields(tenantTable.of(n), limits)
		t.otherResources(n, limits)
	})...)
	if len(b.items) > 0 {
		b.order()
		o.settings = append(o.settings, b)
	}
}

// otherResources translates the remaining keys of a tenant limit, which are names of resources.
func (t *translator) otherResources(n *node, limits *block) {
	var elements []element
	for _, e := range n.entries {
		if e.done {
			continue
		}
		expr, ok := numeric(maxServers)(t, e.value)
		if !ok {
			return
		}
		elements = append(elements, t.element(e, expr))
		t.note(e, Converted, "", toGlobal)
	}
	if len(elements) > 0 {
		limits.set("max_resources", collection(elements, true))
	}
}

var maxServers = tenantTable.known["max_servers"]

func (t *translator) webapp(e *entry, b *block) {
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
	b.remark(append(t.allComments(e), "# webapp: "+note)...)
	t.note(e, Changed, note, toGlobal)
	t.markAll(e.value, Changed, note, toGlobal)
}

// topLabels translates the labels of the configuration.
func (t *translator) topLabels(root *node) []*block {
	return t.blocks(root.get("labels"), "label", "label", looseName, func(n *node, b *block) {
		t.known[b.labels[0]] = true
		if e := n.get("min-ready"); e.set() {
			t.minReady(e, b)
		}
		t.fields(labelTable.of(n), b)
		t.rest(n, b, labelTable.rows, "name", "min-ready")
	})
}

func (t *translator) minReady(e *entry, b *block) {
	verdict, note, read := Converted, "", integer
	if value, ok := e.value.whole(); ok && value < -1 {
		verdict, note, read = Changed, "a negative number is the same as 0 in Nodepool: nodes are launched on request only", numeric(maxServers)
	}
	t.attribute(e, e.value, b, "min_ready", read)
	t.note(e, verdict, note, toLabels)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
