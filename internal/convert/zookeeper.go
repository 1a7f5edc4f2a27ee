package convert

import "strings"

// zookeeper translates the connection. Values of the secure file become sensitive variables.
type zookeeper struct {
	*translator
	out *output
}

func (z *zookeeper) translate(root *node, s secrets, b *block) {
	servers := z.effective(s.servers, root.get("zookeeper-servers"), b)
	tls, timeout := z.effective(s.tls, root.get("zookeeper-tls"), b), z.effective(nil, root.get("zookeeper-timeout"), b)
	if servers == nil {
		for _, e := range []*entry{tls, timeout} {
			if e != nil {
				z.mark(e, NoEffect, "there are no zookeeper-servers, so npctl keeps its state in a file", toGlobal)
				if !e.value.src.secure {
					b.remark(z.allComments(e)...)
				}
			}
		}
		return
	}
	state := newBlock("state", "zookeeper")
	if !servers.value.src.secure {
		state.comment = z.heading(servers, servers.value, true)
	}
	z.translateServers(servers, state)
	if timeout != nil {
		z.attribute(timeout, timeout.value, state, "session_timeout", seconds)
		z.mark(timeout, Converted, "", toGlobal)
	}
	if tls != nil {
		z.translateTLS(tls, state)
	}
	b.add(state)
}

// effective returns the entry that Nodepool uses: that of the secure file, if it has a value.
func (z *zookeeper) effective(secure, main *entry, b *block) *entry {
	if main != nil && (secure.set() || !main.set()) {
		note := "the secure file replaces it"
		if !main.set() {
			note = "the key has no value"
		}
		z.mark(main, NoEffect, note, toGlobal)
		b.remark(z.allComments(main)...)
	}
	switch {
	case secure.set():
		return secure
	case main.set():
		return main
	}
	return nil
}

func (z *zookeeper) translateServers(servers *entry, state *block) {
	var hosts []element
	chroots := map[string]bool{}
	for _, it := range z.list(servers) {
		host, port, chroot := it.get("host"), it.get("port"), it.get("chroot")
		if host == nil || host.value.kind != scalarNode || host.value.text == "" {
			z.fail(it, "the server of ZooKeeper has no host")
			continue
		}
		z.note(host, Converted, "", "")
		address, number := host.value.text, "2281"
		if strings.Contains(address, ":") && !strings.HasPrefix(address, "[") {
			address = "[" + address + "]"
		}
		if port.set() {
			if expr, ok := integer(z.translator, port.value); ok {
				if number = expr; hasEnv(port.value) {
					number = port.value.text
				}
			}
			z.note(port, Converted, "", "")
		}
		e := element{expr: z.textExpr(address + ":" + number)}
		if !servers.value.src.secure {
			e.head = z.deep(it.y, 0)
		}
		hosts = append(hosts, e)
		if chroot.set() {
			z.note(chroot, Converted, "", "")
			if _, ok := text(z.translator, chroot.value); ok {
				chroots[chroot.value.text] = true
			}
		}
		if it.src.secure {
			z.restSecure(it)
		} else {
			z.rest(it, state, nil, "host", "port", "chroot")
		}
	}
	if len(hosts) == 0 && z.err() == nil {
		z.fail(servers.value, "zookeeper-servers has no server")
	}
	if len(chroots) > 1 {
		z.fail(servers.value, "the servers of ZooKeeper have different values of chroot; npctl needs one")
	}
	z.secretAttribute(servers.value.src, state, "hosts", "list(string)", "Servers of ZooKeeper.", collection(hosts, false))
	for chroot := range chroots {
		if chroot != "" {
			chroot = "/" + strings.Trim(chroot, "/")
		}
		z.secretAttribute(servers.value.src, state, "chroot", "string", "Znode below which all data is stored.", z.textExpr(chroot))
	}
}

func (z *zookeeper) translateTLS(e *entry, state *block) {
	z.note(e, Changed, "npctl trusts only the certificates in ca; Nodepool trusts those of the system too", toGlobal)
	if e.value.kind != mappingNode {
		z.wrong(e.value, "a mapping")
		return
	}
	t := newBlock("tls")
	if !e.value.src.secure {
		head, beside, foot := z.keyComments(e)
		t.comment = append(append(head, z.comments(e.value)...), foot...)
		if beside != "" {
			t.comment = append(t.comment, beside)
		}
	}
	if e.value.src.secure {
		for _, k := range tlsTable.rows {
			if inner := e.value.get(k.Key); inner != nil {
				if expr, ok := text(z.translator, inner.value); ok {
					z.secretAttribute(e.value.src, t, k.Attr, "string", "Path of a PEM file.", expr)
				}
				z.note(inner, Converted, "", "")
			}
		}
		z.restSecure(e.value)
	} else {
		z.fields(tlsTable.of(e.value), t)
		z.rest(e.value, t, tlsTable.rows)
	}
	if e.value.get("ca") != nil {
		t.items = append(t.items, item{name: "verify_host_names", expr: "false", beside: "# as Nodepool"})
	}
	state.add(t)
}

// secretAttribute sets an attribute. The value from the secure file moves to a sensitive variable.
func (z *zookeeper) secretAttribute(src *source, b *block, attr, typ, doc, expr string) {
	if src.secure && !strings.Contains(expr, "env(") {
		expr = z.out.moveSecret("zookeeper_"+attr, typ, doc, expr)
	}
	b.set(attr, expr)
}
