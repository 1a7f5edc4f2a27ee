package convert

import (
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

var staticFields = []field{
	{key: "priority", attr: "priority", read: integer, anchor: toEvery},
	{key: "max-concurrency"}, {key: "pools"}, {key: "name"}, {key: "driver"},
}

var nodeFields = []field{
	{key: "labels", attr: "labels", read: staticLabels, anchor: toStatic},
	{key: "username", attr: "username", read: text, anchor: toStatic},
	{key: "timeout", attr: "timeout", read: seconds, anchor: toStatic},
	{key: "host-key-checking", attr: "host_key_checking", read: boolean, anchor: toStatic},
	{key: "host-key", attr: "host_keys", read: hostKeys, anchor: toStatic},
	{key: "connection-type", attr: "connection_type", read: text, anchor: toStatic},
	{key: "connection-port", attr: "connection_port", read: integer, anchor: toStatic},
	{key: "shell-type", attr: "shell_type", read: text, anchor: toStatic},
	{key: "python-path", attr: "python_path", read: text, anchor: toStatic},
	{key: "max-parallel-jobs", attr: "slots", read: integer, anchor: toStatic},
	{key: "ssh-port"}, {key: "name"},
}

func (p *provider) static(n *node) {
	p.fields(n, p.b, staticFields)
	p.maxConcurrency(n)
	p.b.add(p.blocks(n.get("pools"), "pool", "pool", strictName, p.staticPool)...)
	p.rest(n, p.b, staticFields)
}

var staticPoolFields = append([]field{{key: "nodes"}}, poolFields...)

func (p *provider) staticPool(n *node, b *block) {
	p.fields(n, b, staticPoolFields)
	known := map[string]bool{}
	b.add(p.blocks(n.get("nodes"), "static node", "node", looseName, func(n *node, b *block) {
		p.staticNode(n, b)
		if name := b.labels[0]; known[name] { // another user or port of the same machine
			port, _ := b.get("connection_port")
			user, _ := b.get("username")
			b.labels[0] = name + "-" + blockName(strings.Trim(port+"-"+user, "-"))
			if known[b.labels[0]] {
				p.fail(n, "the pool has the node %q twice", name)
			}
			b.items = slices.Insert(b.items, 0, item{name: "address", expr: quote(name)})
		}
		known[b.labels[0]] = true
	})...)
	p.rest(n, b, staticPoolFields)
}

func (p *provider) staticNode(n *node, b *block) {
	p.fields(n, b, nodeFields)
	if e := n.get("ssh-port"); e != nil {
		p.sshPort(e, b)
	}
	if typ, _ := b.get("connection_type"); typ == `"winrm"` || typ == `"psrp"` {
		b.setDefault("connection_port", "22")
	}
	if n.get("labels") == nil {
		p.fail(n, "the static node %q has no labels", b.labels[0])
	}
	p.rest(n, b, nodeFields)
}

// sshPort is the old name of connection-port.
func (t *translator) sshPort(e *entry, b *block) {
	if _, set := b.get("connection_port"); set {
		t.note(e, NoEffect, "connection-port is set", toStatic)
		b.remark(t.allComments(e)...)
		return
	}
	t.attribute(e, b, "connection_port", integer)
	t.note(e, Converted, "the old name of connection-port", toStatic)
}

// hostKeys reads SSH host keys and checks their form.
func hostKeys(t *translator, n *node) (string, bool) {
	keys := n.items
	if n.kind == scalarNode {
		keys = []*node{n}
	}
	for _, key := range keys {
		if key.kind == scalarNode && !hasEnv(key) {
			if _, _, _, rest, err := ssh.ParseAuthorizedKey([]byte(strings.TrimSpace(key.text))); err != nil || len(rest) > 0 {
				t.fail(key, "%q is not an SSH host key; write it like \"ssh-ed25519 AAAA…\", as ssh-keyscan prints it after the host", shorten(key.text))
			}
		}
	}
	return texts(t, n)
}

// staticLabels splits a text at its blanks, as Nodepool does.
func staticLabels(t *translator, n *node) (string, bool) {
	list := *n
	if n.kind == scalarNode {
		list.kind, list.items = listNode, nil
		for word := range strings.FieldsSeq(n.text) {
			part := *n
			part.text = word
			list.items = append(list.items, &part)
		}
	}
	for _, it := range list.items {
		if it.kind == scalarNode && !t.known[it.text] {
			t.unknown(it, "label", it.text, sortedKeys(t.known))
		}
	}
	return texts(t, &list)
}
