package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/internal/syntax"
	plaintext "github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources/schema"
)

// Reference returns docs/configuration.md: every block and attribute of the language, the drivers, the builders and
// the stores, from the schemas that Load uses.
func Reference(drivers map[string]schema.Driver, builders, states map[string]schema.Block) string {
	r := &reference{}
	r.line(referenceIntro)
	r.language()
	r.core(builders, states)
	for _, kind := range slices.Sorted(maps.Keys(drivers)) {
		r.driver(kind, drivers[kind])
	}
	r.functions()
	return r.b.String()
}

type reference struct{ b strings.Builder }

func (r *reference) line(format string, args ...any) {
	if len(args) == 0 {
		r.b.WriteString(format)
	} else {
		fmt.Fprintf(&r.b, format, args...)
	}
	r.b.WriteByte('\n')
}

const referenceIntro = `# Configuration reference

<!-- Generated from the schemas by "make docs". Do not edit. -->

The class of an attribute states the effect of a change. **replacing**: nodes and images that were created with another
value are replaced (the plan prints "forces replacement"); those of a provider's image block upload the image again.
**applied to new**: objects that are created later get the new value; existing objects keep theirs. **in place**: a limit,
priority or time changes at once and replaces nothing.

Durations have the form ` + "`\"90s\"`, `\"10m\"`, `\"24h\"`, `\"7d\"` or `\"2w\"`" + `; a day is 24 hours, a week 7 days. An attribute
without a default is null if it is not set.
`

func (r *reference) language() {
	r.line("## The language\n")
	r.line("A configuration is all `*.hcl` and `*.hcl.json` files of a directory except `*%s`, or one file; [files.md](files.md) describes the JSON "+
		"syntax and override files. Its limits are %s of text, %d levels of nested expressions, and "+
		"for all `for` expressions together %d elements, %s of values and a time of %s.\n",
		syntax.VarsSuffix, plaintext.Bytes(maxTotalBytes), syntax.MaxNesting, maxElements, plaintext.Bytes(maxMadeBytes), maxEvaluation)
	r.line("**References.** `var.x`, `local.x`, `path.config` (the directory of the configuration), `path.module` (the directory of the module, relative to `path.config`), `module.x.y` (the output `y` of the module `x`), `each.key` and `each.value` in a " +
		"block with `for_each`, `diskimage.x` and `zuul_image.x`, `cloud_image.x` in the provider that has it, and `label.x` and " +
		"`provider.x` for their names. A block with `for_each` is a map: `diskimage.debian[\"bookworm\"]`.\n")
	r.line("**for_each** (a map, an object or a set of strings) repeats a `label`, `diskimage`, `zuul_image`, `provider`, `pool`, "+
		"a `label`, `node`, `cloud_image` or `image` inside of them. The name of an instance is `<label of the block>-<key>`, or the value of "+
		"the attribute **name**, which may use `each`. `for_each`, `dynamic` and modules generate at most %d blocks.\n", maxExpansion)
	r.line("**dynamic** \"type\" { for_each, iterator, labels, content { … } } generates nested blocks of any type.\n")
	r.line("**Values of variables**, in the order of precedence: `-var name=value`, `-var-file` (the last file first), `*%s` of the directory "+
		"(the last name first), `%sname` in the environment, the default. The value of a list, map or object is an HCL expression.\n",
		syntax.AutoVarsSuffix, envPrefix)
	r.line("**locals** { name = value } defines values for use elsewhere, in any order and any file.\n")
}

func (r *reference) core(builders, states map[string]schema.Block) {
	r.block(2, "npctl", npctlBlock)
	r.block(3, `npctl: state "kind"`, stateBlock)
	for _, kind := range slices.Sorted(maps.Keys(states)) {
		r.block(4, fmt.Sprintf("state %q", kind), states[kind])
	}
	r.block(2, `variable "name"`, variableBlock)
	r.block(3, "variable: validation", validationBlock)
	r.block(2, `output "name"`, outputBlock)
	r.block(2, `check "name"`, checkBlock)
	r.block(3, "check: assert", assertBlock)
	r.block(2, `module "name"`, moduleBlock)
	r.block(2, `label "name"`, labelBlock)
	r.block(2, "import", importBlock)
	r.block(2, "moved", movedBlock)
	r.block(2, "removed", removedBlock)
	r.block(2, `diskimage "name"`, diskimageBlock)
	r.block(3, `diskimage: builder "kind"`, builderBlock)
	for _, kind := range slices.Sorted(maps.Keys(builders)) {
		if kind != zuulBuilder {
			r.block(4, fmt.Sprintf("builder %q", kind), builders[kind])
		}
	}
	source := builders[zuulBuilder]
	r.block(2, `zuul_image "name"`, schema.Block{
		Doc: zuulImageBlock.Doc, Attributes: slices.Concat(source.Attributes, zuulImageBlock.Attributes), Blocks: source.Blocks,
	})
	r.block(2, `provider "driver" "name"`, providerBlock)
	r.block(3, `provider: pool "name"`, poolBlock)
	r.block(4, `pool: label "name"`, offerBlock)
	r.block(4, `pool: node "host name"`, nodeBlock)
	r.block(3, `provider: cloud_image "name"`, cloudImageBlock)
	r.block(3, `provider: image "name"`, providerImageBlock)
}

func (r *reference) driver(kind string, d schema.Driver) {
	r.line("## Driver %s\n", kind)
	if d.Doc != "" {
		r.line("%s\n", d.Doc)
	}
	if len(d.Formats) > 0 {
		r.line("Image formats: %s.\n", strings.Join(d.Formats, ", "))
	}
	r.more(kind, "provider", d.Provider, true)
	r.more(kind, "pool", d.Pool, true)
	r.more(kind, "label", d.Label, d.HasLabels)
	r.more(kind, "node", d.Node, d.HasNodes)
	r.more(kind, "cloud_image", d.CloudImage, d.HasCloudImages)
	r.more(kind, "image", d.Image, d.HasImages)
}

// more documents the attributes that a driver adds to a block.
func (r *reference) more(kind, block string, b schema.Block, has bool) {
	switch {
	case !has:
		r.line("### %s: %s\n\nThe driver has no such block.\n", kind, block)
	case len(b.Attributes)+len(b.Blocks) > 0:
		r.block(3, kind+": "+block, b)
	}
}

func (r *reference) block(level int, title string, b schema.Block) {
	r.line("%s %s\n", strings.Repeat("#", level), title)
	if b.Doc != "" {
		r.line("%s\n", b.Doc)
	}
	if len(b.Attributes) > 0 {
		r.line("| attribute | type | class | default | meaning |\n| --- | --- | --- | --- | --- |")
		for i := range b.Attributes {
			r.attribute(&b.Attributes[i])
		}
		r.line("")
	}
	for _, nested := range b.Blocks {
		inner := nested.Schema
		inner.Doc = strings.TrimSpace(inner.Doc + " " + counts(nested))
		r.block(min(level+1, 6), nestedTitle(title, nested), inner)
	}
}

func nestedTitle(title string, n schema.NestedBlock) string {
	if n.Label == "" {
		return title + ": " + n.Name
	}
	return fmt.Sprintf("%s: %s %q", title, n.Name, n.Label)
}

func counts(n schema.NestedBlock) string {
	switch {
	case n.Min == 1 && n.Max == 1:
		return "There is exactly one."
	case n.Max > 0 && n.Min > 0:
		return fmt.Sprintf("There are %d to %d.", n.Min, n.Max)
	case n.Max > 0:
		return fmt.Sprintf("There is at most %d.", n.Max)
	case n.Min > 0:
		return fmt.Sprintf("There is at least %d.", n.Min)
	default:
		return "There may be any number."
	}
}

func (r *reference) attribute(a *schema.Attribute) {
	doc := a.Doc
	if len(a.OneOf) > 0 {
		doc += " One of: `" + strings.Join(a.OneOf, "`, `") + "`."
	}
	if a.Min != nil {
		doc += fmt.Sprintf(" At least %d.", *a.Min)
	}
	if a.Sensitive {
		doc += " **Sensitive**: never shown or stored."
	}
	r.line("| `%s` | %s | %s | %s | %s |", a.Name, typeText(a), a.Class, defaultText(a), cell(doc))
}

func typeText(a *schema.Attribute) string {
	switch {
	case a.Type.Equals(schema.ImageRef):
		return "image"
	case a.Format == schema.FormatDuration:
		return "duration"
	default:
		return cell(typeexpr.TypeString(a.Type))
	}
}

func defaultText(a *schema.Attribute) string {
	switch {
	case a.Required:
		return "required"
	case a.Default == cty.NilVal || a.Default.IsNull():
		return ""
	default:
		return "`" + cell(strings.Join(strings.Fields(string(hclwrite.TokensForValue(a.Default).Bytes())), " ")) + "`"
	}
}

// cell formats text for a table cell.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", "\\|")
}

func (r *reference) functions() {
	r.line("## Functions\n")
	r.line("They have the semantics of Terraform. `env(\"NAME\")` reads the environment and fails if the variable is not set; "+
		"`env(\"NAME\", \"default\")` returns the default. Paths are relative to the directory of the configuration; a file has at most "+
		"%s. A template of `templatefile` cannot call `templatefile`.\n", plaintext.Bytes(maxFileBytes))
	for _, group := range functionGroups {
		r.line("- **%s:** `%s`", group.Topic, strings.Join(group.Names, "`, `"))
	}
}
