package convert

import "slices"

// poolAttributes are the attributes of labels that a pool may set for all of its labels.
var poolAttributes = []string{"networks", "host_key_checking", "key_name", "userdata", "config_drive", "boot_from_volume", "volume_size", "instance_properties"}

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
