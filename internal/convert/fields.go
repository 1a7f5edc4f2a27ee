package convert

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	words "github.com/npctl/npctl/internal/text"
)

// field is one key of Nodepool with its counterpart.
type field struct {
	key, attr string // without attr, the caller reads the key itself
	read      reader
	verdict   Verdict // Converted if empty
	note      string
	anchor    string
}

// fields translates the keys of a mapping into attributes, in the order of the input.
func (c *converter) fields(n *node, b *block, table []field) {
	for _, e := range n.entries {
		i := slices.IndexFunc(table, func(f field) bool { return f.key == e.name })
		if i < 0 || e.done {
			continue
		}
		f := table[i]
		verdict := f.verdict
		if verdict == "" {
			verdict = Converted
		}
		switch {
		case f.attr == "" && f.read == nil && f.verdict != "":
			c.markEntry(e, verdict, f.note, f.anchor)
			b.remark(c.withNote(e, verdict, f.note)...)
		case f.attr == "":
		case e.value.kind == nullNode:
			c.note(e, NoEffect, "the key has no value", "")
			b.remark(c.allComments(e)...)
		default:
			c.attribute(e, b, f.attr, f.read)
			c.markEntry(e, verdict, f.note, f.anchor)
		}
	}
}

// attribute translates one key into an attribute with the comments of the key.
func (c *converter) attribute(e *entry, b *block, attr string, read reader) {
	head, beside, foot := c.keyComments(e)
	if own := c.comments(e.value); len(own) > 0 {
		head = append(head, own...)
	}
	expr, ok := read(c, e.value)
	head = append(head, c.deep(e.value.y, 0)...)
	if ok {
		b.items = append(b.items, item{name: attr, expr: expr, comment: head, beside: beside})
		b.remark(foot...)
	}
}

// withNote returns the comments of a key that has no attribute, with the key itself if it has no counterpart.
func (c *converter) withNote(e *entry, verdict Verdict, note string) []string {
	lines := c.allComments(e)
	if verdict == NoEffect && len(lines) == 0 {
		return nil
	}
	value := ""
	if e.value.kind == scalarNode && !e.value.src.secure && !strings.Contains(e.value.text, "\n") {
		value = " " + shorten(restoreEnv(e.value.text))
	}
	return append(lines, fmt.Sprintf("# %s:%s of nodepool.yaml, line %d: %s", e.name, value, e.line, note))
}

// markEntry adds the entry of a key and of all keys below it.
func (c *converter) markEntry(e *entry, verdict Verdict, note, anchor string) {
	c.note(e, verdict, note, anchor)
	if verdict == Converted || verdict == Changed {
		note = ""
	}
	c.markAll(e.value, verdict, note, anchor)
}

// markAll adds the entries of all keys below a value.
func (c *converter) markAll(n *node, verdict Verdict, note, anchor string) {
	for _, e := range n.entries {
		c.note(e, verdict, note, anchor)
		c.markAll(e.value, verdict, note, anchor)
	}
	for _, it := range n.items {
		c.markAll(it, verdict, note, anchor)
	}
}

// rest reports the keys of a mapping that no table has, with the nearest known ones.
func (c *converter) rest(n *node, b *block, known []string) {
	for _, e := range n.entries {
		if e.done {
			continue
		}
		note := "Nodepool has no such key here"
		if near := words.Nearest(e.name, known); near != "" {
			note += fmt.Sprintf("; did you mean %s?", near)
		}
		verdict := Unsupported
		if b == nil && (strings.HasPrefix(e.name, "x-") || e.value.y.Anchor != "" || hasAnchor(e.value)) {
			verdict, note = NoEffect, "Nodepool has no such key; its anchors are resolved where they are used"
		}
		c.markEntry(e, verdict, note, "")
		if verdict == NoEffect && b == nil {
			continue
		}
		lines := c.withNote(e, verdict, note)
		if b == nil {
			c.out.head = append(c.out.head, lines...)
		} else {
			b.remark(lines...)
		}
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

func keysOf(table []field) []string {
	var keys []string
	for _, f := range table {
		keys = append(keys, f.key)
	}
	return keys
}

// list returns the items of a list of mappings, and marks the key.
func (c *converter) list(e *entry) []*node {
	if e == nil {
		return nil
	}
	c.note(e, Converted, "", "")
	if e.value.kind == nullNode {
		return nil
	}
	if e.value.kind != listNode {
		c.wrong(e.value, "a list")
		return nil
	}
	var items []*node
	for _, it := range e.value.items {
		if it.kind != mappingNode {
			c.fail(it, "%s has an element that is not a mapping", e.name)
			continue
		}
		items = append(items, it)
	}
	return c.withoutRepeats(e.name, items)
}

// withoutRepeats removes items with the name of a later one: Nodepool uses the last one.
func (c *converter) withoutRepeats(key string, items []*node) []*node {
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
		c.markAll(it, NoEffect, fmt.Sprintf("Nodepool uses the last entry with this name, on line %d", last[e.value.text].line), "")
		return true
	})
}

// heading returns the comments above a list item. Those of the key of the list belong to its first item.
func (c *converter) heading(list *entry, n *node, first bool) []string {
	var lines []string
	if first && list != nil {
		head, beside, foot := c.keyComments(list)
		lines = append(lines, head...)
		lines = append(lines, foot...)
		if beside != "" {
			lines = append(lines, beside)
		}
		lines = append(lines, c.comments(list.value)...)
	}
	lines = append(lines, c.comments(n)...)
	if name := n.get("name"); name != nil { // "- name: x" carries the comment above the item
		head, beside, foot := c.keyComments(name)
		lines = append(lines, head...)
		if beside != "" {
			lines = append(lines, beside)
		}
		lines = append(lines, foot...)
	}
	return lines
}

var (
	plainName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)
	looseName = regexp.MustCompile(`^[A-Za-z0-9_:][^\x00-\x20",\\\x7f]*$`)
)

// name reads the required name of a list item. loose permits the characters of labels and host names.
func (c *converter) name(n *node, what string, loose bool) (string, bool) {
	e := n.get("name")
	if e == nil || e.value.kind != scalarNode || e.value.text == "" {
		c.fail(n, "the %s has no name", what)
		return "", false
	}
	c.note(e, Converted, "", "")
	name := e.value.text
	switch {
	case hasEnv(e.value):
		c.fail(e.value, "the name of the %s is %q; npctl needs the name itself and not a reference to the environment", what, restoreEnv(name))
	case loose && !looseName.MatchString(name):
		c.fail(e.value, "the %s is called %q; npctl accepts names that start with an ASCII letter or a digit, without blanks, commas and quotes", what, shorten(name))
	case !loose && !plainName.MatchString(name):
		c.fail(e.value, "the %s is called %q; npctl accepts names of ASCII letters, digits, dots, dashes and underscores", what, shorten(name))
	default:
		return name, true
	}
	return "", false
}

// unknown reports a name that refers to nothing.
func (c *converter) unknown(n *node, what, name string, known []string) {
	hint := ""
	if near := words.Nearest(name, known); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	c.fail(n, "there is no %s %q%s", what, name, hint)
}
