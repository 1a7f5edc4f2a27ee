package convert

import (
	"fmt"
	"slices"
	"strings"
)

// image is a diskimage of the input.
type image struct {
	name, parent string
	abstract     bool
	n            *node
	b            *block
	configDrive  string
}

var imageFields = []field{
	{key: "formats", attr: "formats", read: texts}, {key: "keep-formats", attr: "keep_formats", read: texts},
	{key: "rebuild-age", attr: "rebuild_age", read: seconds}, {key: "build-timeout", attr: "build_timeout", read: seconds},
	{key: "pause", attr: "pause", read: boolean}, {key: "delete-after-upload", attr: "delete_after_upload", read: boolean},
	{key: "username", attr: "username", read: text},
	{key: "python-path", attr: "python_path", read: text}, {key: "shell-type", attr: "shell_type", read: text},
}

var dibFields = []field{
	{key: "elements", attr: "elements", read: texts}, {key: "release", attr: "release", read: text},
	{key: "env-vars", attr: "env", read: textMap},
}

func (c *converter) diskimages(root *node, s secrets) {
	list := root.get("diskimages")
	items := c.list(list)
	for _, it := range items {
		name, ok := c.name(it, "diskimage", false)
		if !ok {
			continue
		}
		c.images[name] = &image{name: name, n: it}
		c.imageOrder = append(c.imageOrder, name)
	}
	for i, name := range c.imageOrder {
		c.diskimage(c.images[name], list, i == 0)
	}
	c.checkParents()
	for _, name := range sortedKeys(s.env) {
		if c.images[name] == nil {
			c.unknown(s.env[name].value, "diskimage", name, c.imageOrder)
		}
	}
	if len(c.errs) > 0 {
		return
	}
	c.addElements()
	c.secretEnv(s)
	c.elementPaths()
	for _, name := range c.imageOrder {
		im := c.images[name]
		c.leaveOutEmpty(im)
		im.b.order()
		c.out.images = append(c.out.images, im.b)
	}
}

func (c *converter) diskimage(im *image, list *entry, first bool) {
	n := im.n
	im.b = newBlock("diskimage", im.name)
	im.b.comment = c.heading(list, n, first)
	if e := n.get("abstract"); e != nil && e.value.kind != nullNode {
		if expr, _ := boolean(c, e.value); expr == "true" {
			im.abstract = true
			c.attribute(e, im.b, "abstract", boolean)
		}
		c.note(e, Converted, "", toImages)
	}
	if e := n.get("parent"); e != nil && e.value.kind != nullNode {
		if _, ok := text(c, e.value); ok && e.value.text != "" {
			im.parent = e.value.text
			c.attribute(e, im.b, "parent", func(c *converter, n *node) (string, bool) { return ref("diskimage", n.text), true })
		}
		c.note(e, Converted, "", toImages)
	}
	for _, e := range n.entries {
		if falsy(e.value) && e.name != "delete-after-upload" && e.name != "abstract" && e.name != "parent" && e.name != "name" {
			c.markEntry(e, NoEffect, "Nodepool ignores an empty value, so the value of the parent or the default applies", toBehavior)
			im.b.remark(c.allComments(e)...)
		}
	}
	c.fields(n, im.b, imageFields)
	if e := n.get("metadata"); e != nil && !e.done {
		c.metadata(im, e)
	}
	builder := newBlock("builder", "dib")
	if e := n.get("env-vars"); e != nil && !e.done {
		c.directories(e, builder)
	}
	c.fields(n, builder, dibFields)
	if e := n.get("dib-cmd"); e != nil && !e.done {
		verdict, note := Converted, ""
		if strings.Contains(e.value.text, "%p") {
			verdict, note = Changed, "npctl does not replace %p; write the directory of Nodepool's modules"
		}
		c.attribute(e, builder, "command", text)
		c.note(e, verdict, note, toImages)
	}
	im.b.add(builder)
	known := append(append(keysOf(imageFields), keysOf(dibFields)...), "name", "abstract", "parent", "metadata", "dib-cmd")
	c.rest(n, im.b, known)
	im.b.foot = c.leftComments(n)
}

// directories sets tmp_dir from the variables that name the directory for temporary files.
func (c *converter) directories(e *entry, builder *block) {
	for _, name := range []string{"TMPDIR", "TMP_DIR"} {
		v := e.value.get(name)
		if v == nil || v.value.kind != scalarNode {
			continue
		}
		builder.remove("tmp_dir")
		c.attribute(v, builder, "tmp_dir", text)
		c.note(v, Changed, "each build has a directory of its own below tmp_dir", toImages)
		e.value.entries = slices.DeleteFunc(slices.Clone(e.value.entries), func(other *entry) bool { return other == v })
	}
}

// addElements completes images for which nodepool.yaml has no elements, as in the configuration of a launcher without
// a builder.
func (c *converter) addElements() {
	for _, name := range c.imageOrder {
		im, found := c.images[name], false
		for at := im; at != nil && !found; at = c.images[at.parent] {
			_, found = at.b.blocks("builder")[0].get("elements")
		}
		if found || im.abstract {
			continue
		}
		note := "the image has no elements, so npctl cannot build it; import the builder's configuration, or run npctl watch -serve=nodes"
		builder := im.b.blocks("builder")[0]
		builder.items = append(builder.items, item{name: "elements", expr: `["none"]`, comment: []string{"# nodepool.yaml has no elements: complete them, or build the image elsewhere."}})
		if e := im.n.get("name"); e != nil {
			c.amend(e, Changed, note, toImages)
		}
		if _, set := im.b.get("pause"); !set {
			im.b.items = append([]item{{name: "pause", expr: "true", beside: "# until it has elements"}}, im.b.items...)
		}
	}
}

// falsy reports whether Nodepool ignores the value in a diskimage.
func falsy(n *node) bool {
	switch n.kind {
	case nullNode:
		return true
	case scalarNode:
		if n.text == "" || n.text == "0" {
			return true
		}
		return n.y.Tag == "!!bool" && strings.EqualFold(n.text, "false") || n.text == "no" || n.text == "off"
	case listNode:
		return len(n.items) == 0
	}
	return len(n.entries) == 0
}

// metadata is not inherited in Nodepool, and is in npctl.
func (c *converter) metadata(im *image, e *entry) {
	if im.abstract {
		note := "Nodepool does not inherit the metadata of a parent"
		c.markEntry(e, NoEffect, note, toBehavior)
		im.b.remark(append(c.allComments(e), fmt.Sprintf("# metadata of nodepool.yaml, line %d, has no effect: %s", e.line, note))...)
		return
	}
	c.attribute(e, im.b, "properties", textMap)
	c.markEntry(e, Changed, "images with this parent inherit the properties; in Nodepool they do not", toBehavior)
}

// checkParents reports parents that do not exist and images that are their own ancestor.
func (c *converter) checkParents() {
	for _, name := range c.imageOrder {
		im := c.images[name]
		seen := map[string]bool{name: true}
		for at := im; at.parent != ""; {
			next := c.images[at.parent]
			if next == nil {
				if at == im {
					c.unknown(im.n.get("parent").value, "diskimage", im.parent, c.imageOrder)
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
func (c *converter) secretEnv(s secrets) {
	var values []element
	for _, name := range c.imageOrder {
		e := s.env[name]
		if e == nil || e.value.kind == nullNode {
			continue
		}
		if e.value.kind != mappingNode {
			c.wrong(e.value, "a mapping")
			continue
		}
		builder := c.images[name].b.blocks("builder")[0]
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
			builder.set("secret_env", expr)
			if slices.ContainsFunc(c.imageOrder, func(child string) bool { return c.images[child].parent == name }) {
				c.amend(e, Changed, secretEnvNote+"; images with this parent inherit the variables, in Nodepool they do not", toGlobal)
			}
		}
	}
	if len(values) > 0 {
		c.variable(envVariable, "map(map(string))", "Environment variables of image builds with secret values, by image.")
		c.secretValue(envVariable, collection(values, true))
	}
}

// elementPaths adds elements-dir to the images without a parent; the others inherit it.
func (c *converter) elementPaths() {
	if c.out.elements == "" {
		return
	}
	var roots []*image
	for _, name := range c.imageOrder {
		if im := c.images[name]; im.parent == "" {
			roots = append(roots, im)
		}
	}
	expr := c.out.elements
	if len(roots) > 1 {
		locals := newBlock("locals")
		locals.set("element_paths", expr)
		c.out.settings = append(c.out.settings, locals)
		expr = "local.element_paths"
	}
	for _, im := range roots {
		im.b.blocks("builder")[0].set("element_paths", expr)
	}
}

// leaveOutEmpty removes a builder block without content if a parent or a child has one.
func (c *converter) leaveOutEmpty(im *image) {
	builder := im.b.blocks("builder")[0]
	if len(builder.items) > 0 || im.parent == "" && !im.abstract {
		return
	}
	for i, it := range im.b.items {
		if it.block == builder {
			im.b.items = append(im.b.items[:i], im.b.items[i+1:]...)
			return
		}
	}
}
