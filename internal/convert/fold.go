package convert

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// folding are blocks that become one block with for_each. They differ in their names and in few values.
type folding struct {
	members []*block
	differ  map[string]bool // paths of the values that differ, such as region and 0.max_servers
	heads   [][]string      // comments of each member
	values  [][]element     // values of each member
}

// The limits of a folding: values that differ, in all and for each further member, and foldings that a block may join.
const (
	maxFields      = 6
	fieldsOfMember = 2
	maxOpen        = 20
)

// newFolding returns a folding of all blocks, or false if they differ too much.
func newFolding(blocks []*block) (*folding, bool) {
	f := &folding{members: blocks[:1:1]}
	for _, b := range blocks[1:] {
		if !f.join(b) {
			return nil, false
		}
	}
	return f, true
}

// fold replaces groups of similar blocks where that makes the text at least a third shorter.
func fold(blocks []*block) []*block {
	var all []*folding
	for _, b := range blocks {
		if !slices.ContainsFunc(all[max(0, len(all)-maxOpen):], func(f *folding) bool { return similar(f.members[0], b) && f.join(b) }) {
			all = append(all, &folding{members: []*block{b}})
		}
	}
	folded, gone, taken := map[*block]*block{}, map[*block]bool{}, map[string]bool{}
	few := func(f *folding) bool { return len(f.differ) <= fieldsOfMember*(len(f.members)-1) }
	for _, f := range all {
		for _, b := range f.members {
			taken[b.name()] = taken[b.name()] || len(f.members) == 1 || !few(f)
		}
	}
	for _, f := range all {
		if len(f.members) == 1 || !few(f) {
			continue
		}
		one, values := f.build(uniqueName(f.groupName(), taken))
		if one.items[0].expr = values; 3*lineCount(one) <= 2*lineCount(f.members...) {
			folded[f.members[0]] = one
			for _, b := range f.members[1:] {
				gone[b] = true
			}
		}
	}
	var result []*block
	for _, b := range blocks {
		if !gone[b] {
			result = append(result, cmp.Or(folded[b], b))
		}
	}
	return result
}

func lineCount(blocks ...*block) int {
	var w hclText
	for _, b := range blocks {
		w.WriteString("\n")
		b.write(&w)
	}
	return strings.Count(w.String(), "\n")
}

// similar reports whether two blocks have at least as many values in common as others.
func similar(a, b *block) bool {
	c := comparison{differ: map[string]bool{}}
	return b.kind != "" && c.compare(a, b, "") && c.same >= len(c.differ)
}

// join adds a block if one block can stand for all.
func (f *folding) join(b *block) bool {
	c := comparison{differ: map[string]bool{}}
	maps.Copy(c.differ, f.differ)
	if !c.compare(f.members[0], b, "") || len(c.differ) > maxFields {
		return false
	}
	f.members, f.differ = append(f.members, b), c.differ
	return true
}

// comparison is the difference of two blocks.
type comparison struct {
	same   int             // number of equal values
	differ map[string]bool // paths of the others
}

// compare adds the values of two blocks. It returns false if one block cannot stand for both.
func (c *comparison) compare(a, b *block, path string) bool {
	inner, others := a.blocks(""), b.blocks("")
	if a.kind != b.kind || len(a.labels) != len(b.labels) || len(inner) != len(others) {
		return false
	}
	last := len(a.labels) - 1
	for i, label := range a.labels {
		switch {
		case label == b.labels[i] || i == last && path == "":
		case i == last && a.kind == "pool":
			c.differ[path+"name"] = true
		default:
			return false
		}
	}
	for i, it := range append(slices.Clip(a.items), b.items...) {
		x, y := a.item(it.name), b.item(it.name)
		switch {
		case it.name == "", x != nil && y != nil && i >= len(a.items): // compared already
		case x != nil && y != nil && x.expr == y.expr:
			c.same++
		case strings.Contains(it.expr, "\n"), x != nil && y != nil && imageKind(x.expr) != imageKind(y.expr):
			return false
		default:
			c.differ[path+it.name] = true
		}
	}
	for i := range inner {
		if !c.compare(inner[i], others[i], path+strconv.Itoa(i)+".") {
			return false
		}
	}
	return true
}

// build returns the block with an empty for_each as its first item, and the value of for_each.
func (f *folding) build(name string) (*block, string) {
	f.heads, f.values = make([][]string, len(f.members)), make([][]element, len(f.members))
	one := f.merge(f.members, "")
	one.labels[len(one.labels)-1] = name
	one.items = append([]item{{name: "for_each"}, {name: "name", expr: "each.key"}}, one.items...)
	var elements []element
	for i, b := range f.members {
		e := element{key: quote(b.name()), head: f.heads[i]}
		switch values := f.values[i]; {
		case len(f.differ) == 0:
			e.expr = e.key
		case f.single():
			e.expr, e.beside = values[0].expr, values[0].beside
			e.head = append(e.head, values[0].head...)
		default:
			e.expr = object(values)
		}
		elements = append(elements, e)
	}
	if len(f.differ) == 0 {
		return one, "toset(" + collection(elements, false) + ")"
	}
	return one, collection(elements, true)
}

// merge returns one block for blocks that are similar.
func (f *folding) merge(blocks []*block, path string) *block {
	first := blocks[0]
	one := newBlock(first.kind, slices.Clone(first.labels)...)
	shared := path != "" || !slices.ContainsFunc(blocks, func(b *block) bool { return !slices.Equal(b.comment, first.comment) })
	if shared {
		one.comment, one.foot = first.comment, first.foot
	}
	for i, b := range blocks {
		for _, lines := range [][]string{b.comment, b.foot} {
			if !shared || !slices.Equal(lines, first.comment) && !slices.Equal(lines, first.foot) {
				f.heads[i] = append(f.heads[i], lines...)
			}
		}
	}
	if f.differ[path+"name"] {
		names := make([]*item, len(blocks))
		for i, b := range blocks {
			names[i] = &item{expr: quote(b.name())}
		}
		one.labels[len(one.labels)-1] = "main"
		one.set("name", f.field(first.kind, "", names))
	}
	nested := 0
	for _, it := range f.union(blocks, path) {
		switch {
		case it.block != nil:
			inner := make([]*block, len(blocks))
			for i, b := range blocks {
				inner[i] = b.blocks("")[nested]
			}
			one.add(f.merge(inner, path+strconv.Itoa(nested)+"."))
			nested++
		case it.name != "" && f.differ[path+it.name]:
			all := make([]*item, len(blocks))
			for i, b := range blocks {
				all[i] = b.item(it.name)
			}
			prefix := ""
			if path != "" && first.kind != "pool" {
				prefix = identifier(first.name())
			}
			one.set(it.name, f.field(it.name, prefix, all))
		default:
			one.items = append(one.items, it)
		}
	}
	return one
}

// union returns the items of the first block, and the attributes that only others have. Comments of the others move to
// the values.
func (f *folding) union(blocks []*block, path string) []item {
	items := slices.Clone(blocks[0].items)
	for i, b := range blocks[1:] {
		at := 0
		for _, it := range b.items {
			if it.block != nil {
				continue
			}
			known := slices.IndexFunc(items, func(other item) bool { return other.block == nil && other.name == it.name })
			if known < 0 && it.name != "" {
				items = slices.Insert(items, at, it)
				at++
				continue
			}
			at = max(at, known+1)
			if !f.differ[path+it.name] && !slices.ContainsFunc(items, func(other item) bool { return slices.Equal(other.remarks(), it.remarks()) }) {
				f.heads[i+1] = append(f.heads[i+1], it.remarks()...)
			}
		}
	}
	return items
}

// remarks returns the comments of an attribute, except those of this program.
func (it *item) remarks() []string {
	if it.beside == "" || it.beside == nodepoolDefault {
		return it.comment
	}
	return append(slices.Clip(it.comment), it.beside)
}

// single reports whether the members differ in one value, which all of them have.
func (f *folding) single() bool {
	return len(f.differ) == 1 && !slices.ContainsFunc(f.values, func(values []element) bool { return len(values) == 0 })
}

// field records the values of an attribute that differs, and returns its expression. The prefix distinguishes attributes
// with the same name in several blocks.
func (f *folding) field(name, prefix string, all []*item) string {
	key := name
	for n := 2; slices.ContainsFunc(f.values, func(values []element) bool {
		return slices.ContainsFunc(values, func(e element) bool { return e.key == key })
	}); n++ {
		if key = prefix + "_" + name; prefix == "" || n > 2 {
			key = name + strconv.Itoa(n)
		}
	}
	expr, kind, missing := "each.value."+key, "", false
	for i, it := range all {
		if it == nil {
			missing = true
			continue
		}
		e := element{key: key, expr: it.expr, head: it.comment}
		if it.beside != nodepoolDefault {
			e.beside = it.beside
		}
		if ref := imageReference.FindStringSubmatch(it.expr); ref != nil { // the name; the block has the type
			kind, e.expr = ref[1], ref[3]
			if ref[2] != "" {
				e.expr = quote(ref[2])
			}
		}
		f.values[i] = append(f.values[i], e)
	}
	switch {
	case len(f.differ) == 1 && !missing:
		expr = "each.value"
	case missing:
		expr = "try(" + expr + ", null)"
	}
	if kind != "" {
		expr = kind + "[" + expr + "]"
	}
	return expr
}

var imageReference = regexp.MustCompile(`^(diskimage|cloud_image)(?:\.(.*)|\[(.*)\])$`)

// imageKind returns diskimage or cloud_image for a reference.
func imageKind(expr string) string {
	if ref := imageReference.FindStringSubmatch(expr); ref != nil {
		return ref[1]
	}
	return ""
}

// object returns the expression of an object, in one line if it has no comments and is short.
func object(fields []element) string {
	var parts []string
	for _, e := range fields {
		parts = append(parts, e.key+" = "+e.expr)
	}
	line := "{ " + strings.Join(parts, ", ") + " }"
	if len(line) > maxWidth || slices.ContainsFunc(fields, func(e element) bool { return !e.plain() }) {
		return collection(fields, true)
	}
	return line
}

func identifier(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '.' {
			return '_'
		}
		return r
	}, blockName(name))
}

// groupName returns the words that the names of all members start with, or a word for them.
func (f *folding) groupName() string {
	name := f.members[0].name()
	prefix := name
	for _, b := range f.members[1:] {
		other, n := b.name(), 0
		for n < len(prefix) && n < len(other) && prefix[n] == other[n] {
			n++
		}
		prefix = prefix[:n]
	}
	if end := name[len(prefix):]; end != "" && end[0] >= '0' && end[0] <= '9' {
		prefix = strings.TrimRight(prefix, "0123456789")
	} else if end != "" && !strings.ContainsAny(end[:1], separators) {
		prefix = prefix[:strings.LastIndexAny(prefix, separators)+1]
	}
	if name := strings.TrimRight(prefix, separators); name != "" || f.members[0].kind != "provider" {
		return cmp.Or(name, f.members[0].kind)
	}
	return "cloud"
}

const separators = "-._"

// uniqueName returns a name that is not taken yet, and takes it.
func uniqueName(name string, taken map[string]bool) string {
	unique := name
	for n := 2; taken[unique]; n++ {
		unique = name + "-" + strconv.Itoa(n)
	}
	taken[unique] = true
	return unique
}
