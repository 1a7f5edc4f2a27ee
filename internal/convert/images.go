package convert

import (
	"fmt"
	"slices"
	"strings"
)

// images translates the diskimages.
type images struct {
	*translator
	all      map[string]*image
	order    []string
	unbuilt  map[string]bool // parents that Nodepool cannot build: they have no elements, and no provider has them
	elements string          // expression of element_paths, or ""
}

// image is a diskimage of the input.
type image struct {
	name, parent string
	abstract     bool
	n            *node
	b            *block
	builder      *block
}

func (c *images) translate(o *output, root *node, s secrets) {
	if e := root.get("elements-dir"); e.set() {
		o.head = append(o.head, c.elementsDir(e)...)
	}
	c.unbuilt = unbuiltParents(root)
	o.images = c.blocks(root.get("diskimages"), "diskimage", "diskimage", strictName, c.diskimage)
	c.checkParents()
	for _, name := range sortedKeys(s.env) {
		if c.all[name] == nil {
			c.unknown(s.env[name].value, "diskimage", name, c.order)
		}
	}
	if c.err() != nil {
		return
	}
	c.addElements(o)
	c.secretEnv(o, s)
	c.elementPaths(o)
	for _, im := range c.all {
		if len(im.builder.items) == 0 && (im.parent != "" || im.abstract) { // a parent or a child has one
			im.b.items = slices.DeleteFunc(im.b.items, func(it item) bool { return it.block == im.builder })
		}
	}
}

// diskimage translates the keys of an image.
func (c *images) diskimage(n *node, b *block) {
	im := &image{name: b.labels[0], n: n, b: b, builder: newBlock("builder", "dib")}
	c.all[im.name] = im
	c.order = append(c.order, im.name)
	if e := n.get("abstract"); e.set() {
		if expr, _ := boolean(c.translator, e.value); expr == "true" {
			im.abstract = true
			c.attribute(e, e.value, im.b, "abstract", boolean)
		}
		c.note(e, Converted, "", toImages)
	}
	if c.unbuilt[im.name] && !im.abstract {
		im.abstract = true
		b.items = append(b.items, item{name: "abstract", expr: "true", beside: "# no elements and no provider: Nodepool builds only its children"})
	}
	if e := n.get("parent"); e.set() {
		if _, ok := text(c.translator, e.value); ok && e.value.text != "" {
			im.parent = e.value.text
			c.attribute(e, e.value, im.b, "parent", func(_ *translator, n *node) (string, bool) { return ref("diskimage", n.text), true })
		}
		c.note(e, Converted, "", toImages)
	}
	for _, e := range n.entries {
		if !e.value.truthy() && e.name != "delete-after-upload" && e.name != "abstract" && e.name != "parent" && e.name != "name" {
			c.mark(e, NoEffect, "Nodepool ignores an empty value, so the value of the parent or the default applies", toBehavior)
			im.b.remark(c.allComments(e)...)
		}
	}
	if e := n.get("metadata"); e != nil && !e.done && im.abstract {
		const note = "Nodepool does not inherit the metadata of a parent"
		c.mark(e, NoEffect, note, toBehavior)
		im.b.remark(append(c.allComments(e), fmt.Sprintf("# metadata of nodepool.yaml, line %d, has no effect: %s", e.line, note))...)
	}
	c.fields(imageTable.of(n), im.b)
	if e := n.get("env-vars"); e != nil && !e.done && e.value.kind == mappingNode {
		c.directories(e, im.builder)
	}
	c.fields(dibTable.of(n), im.builder)
	if e := n.get("dib-cmd"); e.set() && strings.Contains(e.value.text, "%p") {
		c.amend(e, Changed, "npctl does not replace %p; write the directory of Nodepool's modules", toImages)
	}
	b.add(im.builder)
	c.rest(n, b, slices.Concat(imageTable.rows, dibTable.rows), "name", "abstract", "parent")
}

// unbuiltParents returns the names of parents that have no elements, inherit none, and are in no provider.
func unbuiltParents(root *node) map[string]bool {
	all, unbuilt := map[string]*node{}, map[string]bool{}
	for _, it := range root.get("diskimages").unchecked() {
		all[it.textOf("name")] = it
	}
	for _, it := range all {
		if parent := it.textOf("parent"); parent != "" {
			unbuilt[parent] = true
		}
	}
	for _, p := range root.get("providers").unchecked() {
		for _, it := range p.get("diskimages").unchecked() {
			delete(unbuilt, it.textOf("name"))
		}
	}
	for name := range unbuilt {
		at := all[name]
		for n := 0; at != nil && n < len(all); n++ {
			if e := at.get("elements"); e != nil && e.value.truthy() {
				delete(unbuilt, name)
			}
			at = all[at.textOf("parent")]
		}
	}
	return unbuilt
}

// directories sets tmp_dir from the variables that name the directory for temporary files.
func (c *images) directories(e *entry, builder *block) {
	for _, name := range []string{"TMPDIR", "TMP_DIR"} {
		v := e.value.get(name)
		if v == nil || v.value.kind != scalarNode {
			continue
		}
		builder.remove("tmp_dir")
		c.attribute(v, v.value, builder, "tmp_dir", text)
		c.note(v, Changed, "each build has a directory of its own below tmp_dir", toImages)
		e.value.entries = slices.DeleteFunc(slices.Clone(e.value.entries), func(other *entry) bool { return other == v })
	}
	if len(e.value.entries) == 0 {
		c.note(e, Converted, "", toImages)
	}
}

// addElements completes images for which nodepool.yaml has no elements, as in the configuration of a launcher without
// a builder.
func (c *images) addElements(o *output) {
	for _, name := range slices.Clone(c.order) {
		im, found := c.all[name], false
		for at := im; at != nil && !found; at = c.all[at.parent] {
			_, found = at.builder.get("elements")
		}
		if found || im.abstract {
			continue
		}
		if c.isParent(name) {
			c.split(o, im)
		}
		note := "the image has no elements, so npctl cannot build it; import the builder's configuration, or run npctl watch -serve=nodes"
		im.builder.items = append(im.builder.items, item{name: "elements", expr: `["none"]`, comment: []string{"# nodepool.yaml has no elements: complete them, or build the image elsewhere."}})
		if e := im.n.get("name"); e != nil {
			c.amend(e, Changed, note, toImages)
		}
		if _, set := im.b.get("pause"); !set {
			im.b.items = append([]item{{name: "pause", expr: "true", beside: "# until it has elements"}}, im.b.items...)
		}
	}
}

// isParent reports whether an image has children.
func (c *images) isParent(name string) bool {
	return slices.ContainsFunc(c.order, func(child string) bool { return c.all[child].parent == name })
}

// split moves all attributes of an image to an abstract image, which becomes its parent and that of its children. So the children do not
// inherit the additions of addElements.
func (c *images) split(o *output, im *image) {
	common := &image{name: im.name + "-common", parent: im.parent, abstract: true, n: im.n, builder: im.builder}
	for c.all[common.name] != nil {
		common.name += "-common"
	}
	common.b = newBlock("diskimage", common.name)
	common.b.set("abstract", "true")
	common.b.items = append(common.b.items, im.b.items...)
	parent := ref("diskimage", common.name)
	for _, name := range c.order {
		if child := c.all[name]; child.parent == im.name {
			child.parent, child.b.item("parent").expr = common.name, parent
		}
	}
	im.parent, im.builder = common.name, newBlock("builder", "dib")
	im.b.items = []item{{name: "parent", expr: parent}}
	im.b.add(im.builder)
	c.all[common.name], c.order = common, slices.Insert(c.order, slices.Index(c.order, im.name), common.name)
	o.images = slices.Insert(o.images, slices.Index(o.images, im.b), common.b)
}

// checkParents reports parents that do not exist and images that are their own ancestor.
func (c *images) checkParents() {
	for _, name := range c.order {
		im := c.all[name]
		seen := map[string]bool{name: true}
		for at := im; at.parent != ""; {
			next := c.all[at.parent]
			if next == nil {
				if at == im {
					c.unknown(im.n.get("parent").value, "diskimage", im.parent, c.order)
				}
				break
			}
			if seen[next.name] {
				if next == im {
					c.fail(im.n.get("parent").value, "the diskimage %q is its own parent", name)
				}
				break
			}
			seen[next.name] = true
			at = next
		}
	}
}

const (
	envVariable   = "diskimage_secret_env"
	secretEnvNote = "the variables are masked in logs, and a change does not rebuild the image"
)

// secretEnv moves the variables of the secure file to a sensitive variable.
func (c *images) secretEnv(o *output, s secrets) {
	var values []element
	for _, name := range c.order {
		e := s.env[name]
		if !e.set() {
			continue
		}
		if e.value.kind != mappingNode {
			c.wrong(e.value, "a mapping")
			continue
		}
		var fixed, fromEnv []element
		for _, v := range e.value.entries {
			el := element{key: mapKey(v.name)}
			switch {
			case v.value.kind != scalarNode:
				c.fail(v.value, "a variable in env-vars has to be a text")
				continue
			case hasEnv(v.value) && !envReference.MatchString(v.value.text), hasEnv(v.value) && envReference.FindString(v.value.text) != v.value.text:
				c.fail(v.value, "a value in the secure file is partly a reference to the environment; write all of it as %%(NODEPOOL_…)")
				continue
			}
			el.expr = c.textExpr(asText(v.value))
			if hasEnv(v.value) {
				fromEnv = append(fromEnv, el)
			} else {
				fixed = append(fixed, el)
			}
		}
		expr := ""
		if len(fixed) > 0 {
			values = append(values, element{key: quote(name), expr: collection(fixed, true)})
			expr = "var." + envVariable + "[" + quote(name) + "]"
		}
		switch {
		case expr != "" && len(fromEnv) > 0:
			expr = "merge(" + expr + ", " + collection(fromEnv, true) + ")"
		case len(fromEnv) > 0:
			expr = collection(fromEnv, true)
		}
		if expr != "" {
			c.all[name].builder.set("secret_env", expr)
			if c.isParent(name) {
				c.amend(e, Changed, secretEnvNote+"; images with this parent inherit the variables, in Nodepool they do not", toGlobal)
			}
		}
	}
	if len(values) > 0 {
		o.moveSecret(envVariable, "map(map(string))", "Environment variables of image builds with secret values, by image.", collection(values, true))
	}
}

// elementsDir reads the directories of elements, and returns the comments.
func (c *images) elementsDir(e *entry) []string {
	if e.value.kind != scalarNode {
		c.wrong(e.value, "a text")
		return nil
	}
	c.mark(e, Converted, "element_paths of each image without a parent", toGlobal)
	var parts []element
	for part := range strings.SplitSeq(e.value.text, ":") {
		if part != "" {
			parts = append(parts, element{expr: c.textExpr(part)})
		}
	}
	c.elements = collection(parts, false)
	return c.allComments(e)
}

// elementPaths adds elements-dir to the images without a parent; the others inherit it.
func (c *images) elementPaths(o *output) {
	var roots []*image
	for _, name := range c.order {
		if im := c.all[name]; im.parent == "" && c.elements != "" {
			roots = append(roots, im)
		}
	}
	expr := c.elements
	if len(roots) > 1 {
		locals := newBlock("locals")
		locals.set("element_paths", expr)
		o.settings = append(o.settings, locals)
		expr = "local.element_paths"
	}
	for _, im := range roots {
		im.builder.set("element_paths", expr)
	}
}
