package convert

import (
	"slices"
	"strconv"
	"strings"
)

// poolAttributes are the attributes of labels that a pool may set for all of its labels.
var poolAttributes = []string{"networks", "host_key_checking", "key_name", "userdata", "config_drive", "boot_from_volume", "volume_size", "instance_properties", "request_properties"}

// compact replaces repetition: attributes that all labels of a pool have move to the pool.
func (o *output) compact() {
	for _, p := range o.providers {
		for _, pool := range p.blocks("pool") {
			if labels := pool.blocks("label"); len(labels) > 1 {
				for _, name := range poolAttributes {
					hoist(pool, labels, name)
				}
			}
		}
	}
	o.shareLabels()
}

// minShared is the number of labels from which pools with the same labels share them.
const minShared = 3

// shareLabels moves lists of labels that several pools have to a local value.
func (o *output) shareLabels() {
	pools := map[string][]*block{}
	var order []string
	for _, p := range o.providers {
		for _, pool := range p.blocks("pool") {
			text, ok := sharable(pool.blocks("label"))
			if !ok {
				continue
			}
			if pools[text] == nil {
				order = append(order, text)
			}
			pools[text] = append(pools[text], pool)
		}
	}
	locals := newBlock("locals")
	for _, text := range order {
		if same := pools[text]; len(same) > 1 {
			name := "labels"
			if n := len(locals.items); n > 0 {
				name += strconv.Itoa(n + 1)
			}
			share(locals, name, same)
		}
	}
	if len(locals.items) > 0 {
		o.settings = append(o.settings, locals)
	}
}

// sharable returns the text of labels that a local value can hold: without comments, with images of one kind.
func sharable(labels []*block) (string, bool) {
	if len(labels) < minShared {
		return "", false
	}
	var w strings.Builder
	first, _ := labels[0].get("image")
	for _, l := range labels {
		image, _ := l.get("image")
		if len(l.comment)+len(l.foot) > 0 || imageKind(image) != imageKind(first) {
			return "", false
		}
		for _, it := range l.items {
			if it.block != nil || it.name == "" || len(it.comment) > 0 || it.beside != "" || strings.Contains(it.expr, "\n") {
				return "", false
			}
		}
		l.write(&w)
	}
	return w.String(), true
}

// imageKind returns diskimage or cloud_image for a reference.
func imageKind(reference string) string {
	kind, _, _ := strings.Cut(strings.ReplaceAll(reference, "[", "."), ".")
	return kind
}

// share replaces the labels of the pools by a dynamic block over a local value.
func share(locals *block, name string, pools []*block) {
	labels := pools[0].blocks("label")
	var values []element
	var attributes []string
	count := map[string]int{}
	for _, l := range labels {
		var fields []element
		for _, it := range l.items {
			expr := it.expr
			if it.name == "image" { // the name; the reference is in the dynamic block
				expr = strings.TrimSuffix(strings.TrimPrefix(expr, imageKind(expr)+"["), "]")
				if plain, ok := strings.CutPrefix(expr, imageKind(expr)+"."); ok {
					expr = quote(plain)
				}
			}
			if count[it.name]++; count[it.name] == 1 {
				attributes = append(attributes, it.name)
			}
			fields = append(fields, element{key: it.name, expr: expr})
		}
		values = append(values, element{key: quote(l.labels[0]), expr: inlineObject(fields)})
	}
	image, _ := labels[0].get("image")
	content := newBlock("content")
	for _, attr := range attributes {
		switch {
		case attr == "image":
			content.set(attr, imageKind(image)+"[label.value.image]")
		case count[attr] == len(labels):
			content.set(attr, "label.value."+attr)
		default:
			content.set(attr, "try(label.value."+attr+", null)")
		}
	}
	dynamic := newBlock("dynamic", "label")
	dynamic.set("for_each", "local."+name)
	dynamic.set("labels", "[label.key]")
	dynamic.add(content)
	locals.set(name, collection(values, true))
	for _, pool := range pools {
		pool.items = slices.DeleteFunc(pool.items, func(it item) bool { return it.block != nil && it.block.kind == "label" })
		pool.add(dynamic)
	}
}

// inlineObject returns an object in one line.
func inlineObject(fields []element) string {
	var parts []string
	for _, f := range fields {
		parts = append(parts, f.key+" = "+f.expr)
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}

// hoist moves an attribute to the pool if all labels have the same value and none has a comment at it. If the pool has
// a value already, no label uses it.
func hoist(pool *block, labels []*block, name string) {
	var first *item
	for _, l := range labels {
		i := slices.IndexFunc(l.items, func(it item) bool { return it.block == nil && it.name == name })
		if i < 0 || len(l.items[i].comment) > 0 || l.items[i].beside != "" || first != nil && l.items[i].expr != first.expr {
			return
		}
		first = &l.items[i]
	}
	moved := *first
	if i := slices.IndexFunc(pool.items, func(it item) bool { return it.block == nil && it.name == name }); i >= 0 {
		if len(pool.items[i].comment) > 0 || pool.items[i].expr != moved.expr && pool.items[i].beside != "" {
			return
		}
		pool.items[i].expr, pool.items[i].beside = moved.expr, ""
	} else {
		at := slices.IndexFunc(pool.items, func(it item) bool { return it.block != nil })
		pool.items = slices.Insert(pool.items, at, moved)
	}
	for _, l := range labels {
		l.remove(name)
	}
}
