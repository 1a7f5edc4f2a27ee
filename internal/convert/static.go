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

func (c *converter) static(p *provider, n *node) {
	p.b = newBlock("provider", "static", p.name)
	c.fields(n, p.b, staticFields)
	c.maxConcurrency(n, p.b)
	c.eachPool(p, n, c.staticPool)
	c.rest(n, p.b, keysOf(staticFields))
	p.b.order()
}

func (c *converter) staticPool(_ *provider, n *node, b *block) {
	c.fields(n, b, poolFields)
	list := n.get("nodes")
	known := map[string]bool{}
	for i, it := range c.list(list) {
		name, ok := c.name(it, "static node", true)
		if !ok {
			continue
		}
		node := newBlock("node", name)
		node.comment = c.heading(list, it, i == 0)
		c.fields(it, node, nodeFields)
		if e := it.get("ssh-port"); e != nil {
			c.sshPort(e, node)
		}
		if typ, _ := node.get("connection_type"); typ == `"winrm"` || typ == `"psrp"` {
			c.nodepoolDefault(node, "connection_port", "22")
		}
		if known[name] { // another user or port of the same machine
			port, _ := node.get("connection_port")
			user, _ := node.get("username")
			node.labels[0] = name + "-" + blockName(strings.Trim(port+"-"+user, "-"))
			if known[node.labels[0]] {
				c.fail(it, "the pool has the node %q twice", name)
			}
			node.items = slices.Insert(node.items, 0, item{name: "address", expr: quote(name)})
		}
		known[node.labels[0]] = true
		if it.get("labels") == nil {
			c.fail(it, "the static node %q has no labels", name)
		}
		c.rest(it, node, keysOf(nodeFields))
		node.foot = c.leftComments(it)
		b.add(node)
	}
	c.rest(n, b, append(keysOf(poolFields), "nodes"))
}

// sshPort is the old name of connection-port.
func (c *converter) sshPort(e *entry, b *block) {
	if _, set := b.get("connection_port"); set {
		c.note(e, NoEffect, "connection-port is set", toStatic)
		b.remark(c.allComments(e)...)
		return
	}
	c.attribute(e, b, "connection_port", integer)
	c.note(e, Converted, "the old name of connection-port", toStatic)
}

// hostKeys reads SSH host keys and checks their form.
func hostKeys(c *converter, n *node) (string, bool) {
	keys := n.items
	if n.kind == scalarNode {
		keys = []*node{n}
	}
	for _, key := range keys {
		if key.kind == scalarNode && !hasEnv(key) {
			if _, _, _, rest, err := ssh.ParseAuthorizedKey([]byte(strings.TrimSpace(key.text))); err != nil || len(rest) > 0 {
				c.fail(key, "%q is not an SSH host key; write it like \"ssh-ed25519 AAAA…\", as ssh-keyscan prints it after the host", shorten(key.text))
			}
		}
	}
	return texts(c, n)
}

// staticLabels splits a text at its blanks, as Nodepool does.
func staticLabels(c *converter, n *node) (string, bool) {
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
		if it.kind == scalarNode && !c.labels[it.text] {
			c.unknown(it, "label", it.text, sortedKeys(c.labels))
		}
	}
	return texts(c, &list)
}
