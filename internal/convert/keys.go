package convert

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/npctl/npctl/internal/requestvalues"
	"github.com/npctl/npctl/resources/schema"
)

// table has the keys of a mapping of Nodepool, with the schemas of the block of npctl that has their counterparts.
type table struct {
	rows   []row
	blocks []schema.Block
	guide  string
	names  []string // of the attributes, in the order of the rows
	known  map[string]schema.Attribute
}

// row is a key with the name of its attribute: filters for the counterpart filters.family.
type row struct {
	schema.NodepoolKey
	attr string
}

func newTable(guide string, keys []schema.NodepoolKey, blocks ...schema.Block) table {
	tab := table{blocks: blocks, guide: guide, known: map[string]schema.Attribute{}}
	for _, k := range keys {
		attr, _, _ := strings.Cut(k.Attr, ".")
		a, ok := tab.lookup(attr)
		if !ok {
			attr = k.Attr
			a, ok = tab.lookup(attr)
		}
		tab.rows = append(tab.rows, row{k, attr})
		if attr != "" && !slices.Contains(tab.names, attr) {
			tab.names = append(tab.names, attr)
		}
		if ok {
			tab.known[attr] = a
		}
	}
	return tab
}

// only returns the table with the rows of some attributes.
func (tab table) only(attributes ...string) table {
	var keys []schema.NodepoolKey
	for _, k := range tab.rows {
		if slices.Contains(attributes, k.attr) {
			keys = append(keys, k.NodepoolKey)
		}
	}
	return newTable(tab.guide, keys, tab.blocks...)
}

// lookup returns the schema of an attribute, such as networks or object_storage.bucket.
func (tab table) lookup(name string) (schema.Attribute, bool) {
	outer, inner, nested := strings.Cut(name, ".")
	for _, b := range tab.blocks {
		i := slices.IndexFunc(b.Blocks, func(n schema.NestedBlock) bool { return nested && n.Name == outer })
		if i >= 0 {
			return b.Blocks[i].Schema.Lookup(inner)
		}
		if a, ok := b.Lookup(name); ok {
			return a, true
		}
	}
	return schema.Attribute{}, false
}

// has reports whether the block of the table has an attribute.
func (tab table) has(attr string) bool {
	_, ok := tab.lookup(attr)
	return ok
}

// mapping is a mapping of Nodepool with its table. Without a node it is empty.
type mapping struct {
	table
	*node
	provider *node // that the mapping belongs to, if any
}

func (tab table) of(n *node) mapping { return mapping{table: tab, node: n} }

// in returns the mapping of a node in a provider.
func (tab table) in(provider, n *node) mapping { return mapping{tab, n, provider} }

func (tab table) link(k row) string { return cmp.Or(k.Guide, tab.guide) }

// isOuter reports whether other keys of the table are in the value of this one.
func (tab table) isOuter(key string) bool {
	return slices.ContainsFunc(tab.rows, func(k row) bool { return strings.HasPrefix(k.Key, key+".") })
}

func verdictOf(k row) Verdict {
	switch {
	case k.Changed:
		return Changed
	case k.Attr == "":
		return NoEffect
	default:
		return Converted
	}
}

// at returns the entry of a key such as fleet.instance-types, or nil.
func (m mapping) at(key string) *entry {
	if m.node == nil {
		return nil
	}
	n := m.node
	for {
		outer, inner, nested := strings.Cut(key, ".")
		e := n.get(outer)
		if e == nil || !nested {
			return e
		}
		n, key = e.value, inner
	}
}

// part is a key that is set, with its value in the form of npctl.
type part struct {
	row
	*entry
	outer *entry // the mapping that the key is in, or the entry itself
	form  *node
	link  string
}

// find returns the parts of an attribute: the first key with a value, in the order of the mappings. A map has the elements of all
// keys.
func (t *translator) find(attr string, all ...mapping) []part {
	var parts []part
	for _, m := range all {
		a := m.known[attr]
		for _, k := range m.rows {
			if k.attr != attr {
				continue
			}
			e := m.at(k.Key)
			if !e.set() || len(parts) > 0 && !a.Type.IsMapType() {
				continue
			}
			form := t.form(m, k, a, e)
			if form == nil {
				continue
			}
			if name, ok := strings.CutPrefix(k.Attr, attr+"."); ok {
				form = mappingOf(e, &entry{key: e.key, name: name, path: e.path, line: e.line, value: form})
			}
			outer, _, _ := strings.Cut(k.Key, ".")
			parts = append(parts, part{k, e, m.get(outer), form, m.link(k)})
		}
	}
	return parts
}

// joined returns the value of an attribute. The first of several elements with one name counts.
func joined(parts []part) *node {
	all := *parts[0].form
	for _, p := range parts[1:] {
		if p.form.kind != mappingNode || all.kind != mappingNode {
			continue
		}
		all.entries = slices.Clone(all.entries)
		for _, e := range p.form.entries {
			if all.get(e.name) == nil {
				all.entries = append(all.entries, e)
			}
		}
	}
	return &all
}

// mappingOf returns a mapping in the place of the value of a key.
func mappingOf(e *entry, entries ...*entry) *node {
	return &node{src: e.value.src, y: &yaml.Node{Kind: yaml.MappingNode}, kind: mappingNode, line: e.line, path: e.path, entries: entries}
}

// form returns the value of a key in the form of npctl, or nil after a mistake.
func (t *translator) form(m mapping, k row, a schema.Attribute, e *entry) *node {
	switch v := e.value; {
	case k.Text != "":
		filled, missing := template(m.node, k, v)
		if missing != "" && v.kind == mappingNode {
			t.fail(v, "%s needs %s", k.Key, missing)
		}
		return filled
	case k.Form == schema.AsNamed:
		return t.named(e)
	case k.Form == schema.AsNested && v.kind == mappingNode:
		return nested(e)
	case k.Form == schema.AsLabels:
		return t.labelNames(v, a.Type.IsListType())
	case a.Type.IsListType() && v.kind == listNode:
		return t.names(v)
	case v.kind == mappingNode && m.isOuter(k.Key):
		rest := *v
		rest.entries = slices.DeleteFunc(slices.Clone(v.entries), func(inner *entry) bool {
			return slices.ContainsFunc(m.rows, func(other row) bool { return other.Key == k.Key+"."+inner.name })
		})
		return &rest
	default:
		return v
	}
}

var placeholder = regexp.MustCompile(`\{([a-z-]+)\}`)

// template fills in a text with keys of the value, or with those beside it. Without one of them, it returns nil and the key.
func template(beside *node, k row, v *node) (filled *node, missing string) {
	from := beside
	if v.kind == mappingNode {
		from = v
	}
	text := placeholder.ReplaceAllStringFunc(k.Text, func(name string) string {
		name = strings.Trim(name, "{}")
		e := from.get(name)
		if !e.set() || e.value.kind != scalarNode {
			missing = name
			return ""
		}
		return e.value.text
	})
	if missing != "" {
		return nil, missing
	}
	one := *v
	one.kind, one.text, one.y = scalarNode, text, &yaml.Node{Kind: yaml.ScalarNode, Style: yaml.DoubleQuotedStyle}
	return &one, ""
}

// named reads a list of names with values as a mapping.
func (t *translator) named(e *entry) *node {
	if e.value.kind != listNode {
		t.wrong(e.value, "a list of names with values")
		return nil
	}
	all := mappingOf(e)
	for _, it := range e.value.items {
		name, values := cmp.Or(it.get("name"), it.get("Name")), cmp.Or(it.get("value"), it.get("values"), it.get("Values"))
		if it.kind != mappingNode || name == nil || name.value.kind != scalarNode || values == nil {
			t.fail(it, "%s has an element without a name and a value", e.name)
			return nil
		}
		one := &entry{key: values.key, name: name.value.text, path: values.path, line: it.line, value: values.value, beside: []*yaml.Node{it.y, name.key, name.value.y}}
		all.entries = append(all.entries, one)
	}
	return all
}

// nested joins the keys of a mapping of mappings with dots.
func nested(e *entry) *node {
	all := mappingOf(e)
	add := func(name string, from *entry) {
		one := *from
		one.name = strings.ReplaceAll(name, "-", "_")
		all.entries = append(all.entries, &one)
	}
	for _, outer := range e.value.entries {
		if outer.value.kind != mappingNode {
			add(outer.name, outer)
		}
		for _, inner := range outer.value.entries {
			add(outer.name+"."+inner.name, inner)
		}
	}
	return all
}

// labelNames splits a text at its blanks, as Nodepool does, and checks that the labels exist.
func (t *translator) labelNames(n *node, isList bool) *node {
	names := *n
	if isList && n.kind == scalarNode {
		names.kind, names.items = listNode, nil
		for word := range strings.FieldsSeq(n.text) {
			one := *n
			one.text = word
			names.items = append(names.items, &one)
		}
	}
	all := names.items
	if !isList {
		all = []*node{n}
	}
	for _, it := range all {
		if it.kind == scalarNode && t.known != nil && !t.known[it.text] && !hasEnv(it) {
			t.unknown(it, "label", it.text, sortedKeys(t.known))
		}
	}
	return &names
}

// names returns a list in which mappings with a name are replaced by the name, as old configurations have them.
func (t *translator) names(n *node) *node {
	flat := *n
	flat.items = nil
	for _, it := range n.items {
		if e := it.get("name"); it.kind == mappingNode && e != nil && e.value.kind == scalarNode {
			t.markAll(it, Converted, "the name is an element of the list", "")
			it = e.value
		}
		flat.items = append(flat.items, it)
	}
	return &flat
}

// fields translates a mapping into the attributes of a block, in the order of its table. above are the mappings that have
// defaults for it.
func (t *translator) fields(m mapping, b *block, above ...mapping) {
	all, done := append([]mapping{m}, above...), map[string]bool{}
	for _, k := range m.rows {
		e := m.at(k.Key)
		if k.Attr == "" {
			if e != nil && !e.done && k.Note != "" {
				t.without(e, b, verdictOf(k), k.Note, m.link(k))
			}
			continue
		}
		parts := t.find(k.attr, m)
		switch {
		case e != nil && !e.done && !e.set():
			t.note(e, NoEffect, "the key has no value", "")
			b.remark(t.allComments(e)...)
		case done[k.attr] && e.set() && !e.done && len(parts) > 0 && !strings.HasPrefix(parts[0].Key, k.Key+"."):
			t.without(e, b, NoEffect, parts[0].Key+" is set", m.link(k))
		case !done[k.attr] && slices.ContainsFunc(parts, func(p part) bool { return !p.done }):
			t.set(m.table, b, t.find(k.attr, all...))
			done[k.attr] = true
		}
		if k.Default != "" && len(t.find(k.attr, all...)) == 0 {
			t.setDefault(m, b, k)
		}
	}
}

// without reports a key without a counterpart, and keeps it as a comment.
func (t *translator) without(e *entry, b *block, verdict Verdict, note, link string) {
	t.mark(e, verdict, note, link)
	b.remark(t.withNote(e, verdict, note)...)
}

// set sets an attribute from its parts, and reports them.
func (t *translator) set(tab table, b *block, parts []part) {
	first, value := parts[0], joined(parts)
	a := tab.known[first.attr]
	note := ""
	if first.Partial && value.kind == scalarNode && !hasEnv(value) && !slices.Contains(a.OneOf, value.text) {
		note = "npctl has " + strings.Join(a.OneOf, ", ")
	} else if first.attr == "request_properties" {
		note = unknownTemplate(value)
	}
	if note != "" {
		t.without(first.entry, b, Unsupported, note, first.link)
		return
	}
	name, at := first.attr, b
	if outer, inner, ok := strings.Cut(first.attr, "."); ok {
		name, at = inner, b.nested(outer)
		head, beside, foot := t.keyComments(first.outer)
		at.comment = slices.DeleteFunc(slices.Concat(at.comment, head, []string{beside}, foot), func(line string) bool { return line == "" })
	}
	t.attribute(first.entry, value, at, name, readerOf(a, first.NodepoolKey))
	for _, p := range parts {
		t.mark(p.entry, verdictOf(p.row), p.Note, p.link)
	}
}

// unknownTemplate returns a reason against templates that npctl rejects, such as {request.labels[0]}.
func unknownTemplate(n *node) string {
	for _, property := range n.entries {
		if property.value.kind != scalarNode || hasEnv(property.value) {
			continue
		}
		if err := requestvalues.Check(restoreEnv(property.value.text)); err != nil {
			return fmt.Sprintf("property %q: %v", property.name, err)
		}
	}
	return ""
}

// setDefault sets Nodepool's default if npctl has another one.
func (t *translator) setDefault(m mapping, b *block, k row) {
	a := m.known[k.attr]
	if value := defaultOf(k, a, m.provider); format(a, value) == format(a, plain(a, a.Default)) || value == nil {
		return
	}
	if expr, ok := readerOf(a, k.NodepoolKey)(t, scalarOf(k.Default)); ok {
		b.setDefault(k.Attr, expr)
	}
}

// defaultOf returns Nodepool's default in a provider.
func defaultOf(k row, a schema.Attribute, provider *node) any {
	switch {
	case k.Default == schema.NpctlDefault:
		return plain(a, a.Default)
	case k.Default == "" || k.DefaultWith != "" && !provider.get(k.DefaultWith).set():
		return nil
	default:
		return valueOf(a, k.NodepoolKey, scalarOf(k.Default))
	}
}

// required reports attributes that npctl needs.
func (t *translator) required(m mapping, b *block, what string) {
	key := func(attr string) string {
		name := attr
		for _, k := range m.rows {
			if k.Attr == attr {
				name = k.Key
			}
		}
		return name
	}
	for _, attr := range m.names {
		if m.known[attr].Required && b.item(attr) == nil && !strings.Contains(attr, ".") {
			t.fail(m.node, "the %s has no %s", what, key(attr))
		}
	}
	for _, schemas := range m.blocks {
		for _, group := range schemas.AtLeastOneOf {
			if !slices.ContainsFunc(group, func(attr string) bool { return b.item(attr) != nil }) {
				t.fail(m.node, "the %s has neither %s nor %s", what, key(group[0]), key(group[1]))
			}
		}
	}
}

// nested returns the inner block of a kind, and adds it if there is none.
func (b *block) nested(kind string) *block {
	if all := b.blocks(kind); len(all) > 0 {
		return all[0]
	}
	one := newBlock(kind)
	b.add(one)
	return one
}
