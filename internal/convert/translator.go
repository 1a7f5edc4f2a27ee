package convert

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	words "github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources/schema"
)

// translator has the common state of all parts of a translation.
type translator struct {
	*problems
	*report
	emitted
	environment
	drivers map[string]driverTables
	known   map[string]bool // the names of the labels
}

func newTranslator(drivers map[string]schema.Driver) *translator {
	t := &translator{&problems{}, &report{}, emitted{}, environment{}, map[string]driverTables{}, map[string]bool{}}
	for kind, d := range drivers {
		if d.Nodepool != nil {
			t.drivers[kind] = tablesOf(d)
		}
	}
	return t
}

// read reads one file.
func (t *translator) read(s source) *node {
	s.problems, s.report = t.problems, t.report
	return s.read()
}

// attribute translates a value into an attribute with the comments of its key.
func (t *translator) attribute(e *entry, value *node, b *block, attr string, read reader) {
	head, beside, foot := t.keyComments(e)
	if own := t.comments(e.value); len(own) > 0 {
		head = append(head, own...)
	}
	expr, ok := read(t, value)
	head = append(head, t.deep(e.value.y, 0)...)
	if ok {
		b.items = append(b.items, item{name: attr, expr: expr, comment: head, beside: beside, from: e.place()})
		b.remark(foot...)
	}
}

// withNote returns the comments of a key that has no attribute, with the key itself if it has no counterpart.
func (t *translator) withNote(e *entry, verdict Verdict, note string) []string {
	lines := t.allComments(e)
	if verdict == NoEffect && len(lines) == 0 || verdict == Converted {
		return lines
	}
	value := ""
	if e.value.kind == scalarNode && !e.value.src.secure && !strings.Contains(e.value.text, "\n") {
		value = " " + words.Shorten(restoreEnv(e.value.text), 60)
	}
	return append(lines, fmt.Sprintf("# %s:%s of nodepool.yaml, line %d: %s", e.name, value, e.line, note))
}

// rest reports the keys of a mapping that are not in the table, with the nearest known ones. others are keys that the caller
// reads.
func (t *translator) rest(n *node, b *block, rows []row, others ...string) {
	known, inner := others, map[string][]row{}
	for _, k := range rows {
		name, rest, nested := strings.Cut(k.Key, ".")
		known = append(known, name)
		if nested {
			k.Key = rest
			inner[name] = append(inner[name], k)
		}
	}
	for _, e := range n.entries {
		if nested := inner[e.name]; nested != nil && e.value.kind == mappingNode {
			t.note(e, Converted, "", "")
			t.rest(e.value, b, nested)
		}
		if e.done {
			continue
		}
		if inner[e.name] != nil && e.set() {
			t.wrong(e.value, "a mapping")
			continue
		}
		note := "Nodepool has no such key here"
		if near := words.Nearest(e.name, known); near != "" {
			note += fmt.Sprintf("; did you mean %s?", near)
		}
		if n.path == "" && (strings.HasPrefix(e.name, "x-") || hasAnchor(e.value)) {
			t.mark(e, NoEffect, "Nodepool has no such key; its anchors are resolved where they are used", "")
			continue
		}
		t.mark(e, Unsupported, note, "")
		b.remark(t.withNote(e, Unsupported, note)...)
	}
}

func hasAnchor(n *node) bool {
	if n.y.Anchor != "" {
		return true
	}
	for _, e := range n.entries {
		if hasAnchor(e.value) {
			return true
		}
	}
	return slices.ContainsFunc(n.items, hasAnchor)
}

// blocks translates the items of a list into blocks with their comments. Errors call an item what.
func (t *translator) blocks(list *entry, what, kind string, accept alphabet, translate func(n *node, b *block)) []*block {
	var all []*block
	for i, it := range t.list(list) {
		name, ok := t.name(it, what, accept)
		if !ok {
			continue
		}
		b := newBlock(kind, name)
		b.from = it
		b.comment = t.heading(list, it, i == 0)
		translate(it, b)
		b.order()
		b.foot = append(b.foot, t.leftComments(it)...)
		all = append(all, b)
	}
	return all
}

// list returns the items of a list of mappings, and marks the key.
func (t *translator) list(e *entry) []*node {
	if e == nil {
		return nil
	}
	t.note(e, Converted, "", "")
	if e.set() && e.value.kind != listNode {
		t.wrong(e.value, "a list")
		return nil
	}
	var items []*node
	for _, it := range e.value.items {
		if it.kind != mappingNode {
			t.fail(it, "%s has an element that is not a mapping", e.name)
			continue
		}
		items = append(items, it)
	}
	return t.withoutRepeats(e.name, items)
}

// withoutRepeats removes items with the name of a later one: Nodepool uses the last one.
func (t *translator) withoutRepeats(key string, items []*node) []*node {
	last := map[string]*node{}
	for _, it := range items {
		if e := it.get("name"); e != nil && e.value.kind == scalarNode {
			last[e.value.text] = it
		}
	}
	return slices.DeleteFunc(items, func(it *node) bool {
		e := it.get("name")
		if e == nil || last[e.value.text] == nil || last[e.value.text] == it || key == "nodes" {
			return false
		}
		t.markAll(it, NoEffect, fmt.Sprintf("Nodepool uses the last entry with this name, on line %d", last[e.value.text].line), "")
		return true
	})
}

// heading returns the comments above a list item. Those of the key of the list belong to its first item.
func (t *translator) heading(list *entry, n *node, first bool) []string {
	var lines []string
	if first && list != nil {
		head, beside, foot := t.keyComments(list)
		lines = append(lines, head...)
		lines = append(lines, foot...)
		if beside != "" {
			lines = append(lines, beside)
		}
		lines = append(lines, t.comments(list.value)...)
	}
	lines = append(lines, t.comments(n)...)
	if name := n.get("name"); name != nil { // "- name: x" carries the comment above the item
		head, beside, foot := t.keyComments(name)
		lines = append(lines, head...)
		if beside != "" {
			lines = append(lines, beside)
		}
		lines = append(lines, foot...)
	}
	return lines
}

// alphabet are the names that npctl accepts for the items of a list, with a description.
type alphabet struct {
	key     string
	pattern *regexp.Regexp
	words   string
}

var (
	strictName = alphabet{"name", regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`), "names of ASCII letters, digits, dots, dashes and underscores"}
	looseName  = alphabet{"name", regexp.MustCompile(`^[A-Za-z0-9_:][^\x00-\x20",\\\x7f]*$`), "names that start with an ASCII letter or a digit, without blanks, commas and quotes"}
	anyName    = alphabet{"name", regexp.MustCompile(``), ""}
	tenantName = alphabet{"tenant-name", regexp.MustCompile(``), ""}
)

// name reads the required name of a list item.
func (t *translator) name(n *node, what string, accept alphabet) (string, bool) {
	e := n.get(accept.key)
	if e == nil || e.value.kind != scalarNode || e.value.text == "" {
		t.fail(n, "the %s has no %s", what, accept.key)
		return "", false
	}
	t.note(e, Converted, "", "")
	name := e.value.text
	switch {
	case hasEnv(e.value):
		t.fail(e.value, "the name of the %s is %q; npctl needs the name itself and not a reference to the environment", what, restoreEnv(name))
	case !accept.pattern.MatchString(name):
		t.fail(e.value, "the %s is called %q; npctl accepts %s", what, words.Shorten(name, 60), accept.words)
	default:
		return name, true
	}
	return "", false
}
