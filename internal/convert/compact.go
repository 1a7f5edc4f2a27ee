package convert

import (
	"slices"
	"strconv"
)

// compact replaces repetition: attributes that all labels of a pool have move to the pool, providers and static nodes
// that differ in few values become one block with for_each, several pools with the same labels share a local value, and
// images do not repeat the values of their parents.
func (o *output) compact(drivers map[string]driverTables) {
	for _, p := range o.providers {
		for _, pool := range p.blocks("pool") {
			if labels := pool.blocks("label"); len(labels) > 1 {
				for _, it := range slices.Clone(labels[0].items) {
					if it.name != "" && drivers[p.labels[0]].pool.has(it.name) {
						hoist(pool, labels, it.name)
					}
				}
			}
			pool.replace("node", fold(pool.blocks("node")))
		}
	}
	o.shareKeys()
	o.providers = fold(o.providers)
	o.shareLabels()
	parents := map[string]*block{}
	for _, b := range o.images {
		parents[ref("diskimage", b.name())] = b
	}
	for _, b := range o.images {
		var above []*block
		for at := parents[b.expr("parent")]; at != nil; at = parents[at.expr("parent")] {
			above = append(above, at)
		}
		inherit(b, above)
		for _, builder := range b.blocks("builder") {
			var builders []*block
			for _, at := range above {
				builders = append(builders, at.blocks("builder")...)
			}
			if inherit(builder, builders); len(builder.items) == 0 {
				b.replace("builder", nil)
			}
		}
	}
}

// inherit removes the values without comments that the nearest block above has too. The elements are appended to those
// of the parents.
func inherit(b *block, above []*block) {
	b.items = slices.DeleteFunc(b.items, func(it item) bool {
		i := slices.IndexFunc(above, func(at *block) bool { return at.item(it.name) != nil })
		return it.name != "" && i >= 0 && above[i].expr(it.name) == it.expr && len(it.remarks()) == 0 &&
			!slices.Contains([]string{"abstract", "parent", "elements"}, it.name)
	})
}

// shareKeys moves the keys of users that several blocks have to local values.
func (o *output) shareKeys() {
	places := map[string][]*item{}
	var order []string
	for _, p := range o.providers {
		for _, pool := range p.blocks("pool") {
			for _, b := range append(pool.blocks("label"), pool) {
				it := b.item("ssh_keys")
				if it == nil {
					continue
				}
				if places[it.expr] == nil {
					order = append(order, it.expr)
				}
				places[it.expr] = append(places[it.expr], it)
			}
		}
	}
	locals := newBlock("locals")
	for _, expr := range order {
		if len(places[expr]) < 2 {
			continue
		}
		name := "ssh_keys"
		if n := len(locals.items); n > 0 {
			name += strconv.Itoa(n + 1)
		}
		locals.set(name, expr)
		for _, it := range places[expr] {
			it.expr = "local." + name
		}
	}
	if len(locals.items) > 0 {
		o.settings = append(o.settings, locals)
	}
}

// minShared is the number of labels from which pools with the same labels share them.
const minShared = 3

// shareLabels moves lists of labels that several pools have to a local value.
func (o *output) shareLabels() {
	pools := map[string][]*block{}
	var order []string
	for _, p := range o.providers {
		for _, pool := range p.blocks("pool") {
			text, commented := signature(pool.blocks("label"))
			if len(pool.blocks("label")) < minShared || commented && pools[text] != nil {
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
		same := pools[text]
		labels, ok := newFolding(same[0].blocks("label"))
		if len(same) < 2 || !ok {
			continue
		}
		name := "labels"
		if n := len(locals.items); n > 0 {
			name += strconv.Itoa(n + 1)
		}
		all, values := labels.build("all")
		locals.set(name, values)
		all.items[0].expr = "local." + name
		for _, pool := range same {
			pool.replace("label", []*block{all})
		}
	}
	if len(locals.items) > 0 {
		o.settings = append(o.settings, locals)
	}
}

// signature returns the text of blocks without comments, and whether they have comments.
func signature(blocks []*block) (string, bool) {
	var with, without hclText
	for _, b := range blocks {
		b.write(&with)
		bare := newBlock(b.kind, b.labels...)
		for _, it := range b.items {
			if it.name != "" || it.block != nil {
				bare.items = append(bare.items, item{name: it.name, expr: it.expr, block: it.block})
			}
		}
		bare.write(&without)
	}
	return without.String(), with.String() != without.String()
}

// hoist moves an attribute to the pool if all labels have the same value and none has a comment at it. If the pool has
// a value already, no label uses it.
func hoist(pool *block, labels []*block, name string) {
	var first *item
	for _, l := range labels {
		i := slices.IndexFunc(l.items, func(it item) bool { return it.block == nil && it.name == name })
		if i < 0 || len(l.items[i].remarks()) > 0 || first != nil && l.items[i].expr != first.expr {
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
