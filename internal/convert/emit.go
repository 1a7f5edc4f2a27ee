package convert

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// block is a block of HCL. Without a type it is the content of a file.
type block struct {
	kind    string
	labels  []string
	comment []string
	items   []item
	foot    []string
	from    *node // in the input; nil if it has none
}

// item is an attribute, a block or a comment.
type item struct {
	name, expr string // attribute
	comment    []string
	beside     string
	block      *block
	from       *node // in the input; nil if it has none
}

// hclText is HCL with the places of the input that its lines come from.
type hclText struct {
	strings.Builder
	marks []mark
}

// mark says that the text from an offset comes from a value of the input.
type mark struct {
	offset int
	from   *node
}

func (w *hclText) comesFrom(n *node) {
	if n != nil {
		w.marks = append(w.marks, mark{w.Len(), n})
	}
}

// places returns the place in the input of each line.
func (w *hclText) places() []Place {
	var all []Place
	var at Place
	marks, offset := w.marks, 0
	for line := range strings.SplitAfterSeq(w.String(), "\n") {
		offset += len(line)
		for ; len(marks) > 0 && marks[0].offset < offset; marks = marks[1:] {
			at = Place{marks[0].from.src.name, marks[0].from.line}
		}
		all = append(all, at)
	}
	return all
}

func newBlock(kind string, labels ...string) *block { return &block{kind: kind, labels: labels} }

func (b *block) set(name, expr string) { b.items = append(b.items, item{name: name, expr: expr}) }

// expr returns the expression of an attribute, or "".
func (b *block) expr(name string) string {
	expr, _ := b.get(name)
	return expr
}

// setDefault sets a default of Nodepool that differs from npctl's.
func (b *block) setDefault(name, expr string) {
	if _, set := b.get(name); !set {
		b.items = append(b.items, item{name: name, expr: expr, beside: nodepoolDefault})
	}
}

const nodepoolDefault = "# Nodepool's default"

func (b *block) add(inner ...*block) {
	for _, one := range inner {
		b.items = append(b.items, item{block: one})
	}
}

func (b *block) remark(lines ...string) {
	if len(lines) > 0 {
		b.items = append(b.items, item{comment: lines})
	}
}

// name returns the last label.
func (b *block) name() string {
	if len(b.labels) == 0 {
		return ""
	}
	return b.labels[len(b.labels)-1]
}

// item returns an attribute, or nil.
func (b *block) item(name string) *item {
	for i := range b.items {
		if it := &b.items[i]; it.block == nil && it.name == name {
			return it
		}
	}
	return nil
}

// get returns the expression of an attribute.
func (b *block) get(name string) (string, bool) {
	if it := b.item(name); it != nil {
		return it.expr, true
	}
	return "", false
}

func (b *block) remove(name string) {
	b.items = slices.DeleteFunc(b.items, func(it item) bool { return it.name == name && it.block == nil })
}

// replace replaces the inner blocks of a kind.
func (b *block) replace(kind string, with []*block) {
	b.items = slices.DeleteFunc(b.items, func(it item) bool { return it.block != nil && it.block.kind == kind })
	b.add(with...)
}

// blocks returns the inner blocks of a kind, or all with "".
func (b *block) blocks(kind string) []*block {
	var found []*block
	for _, it := range b.items {
		if it.block != nil && (kind == "" || it.block.kind == kind) {
			found = append(found, it.block)
		}
	}
	return found
}

// order moves the attributes before the blocks.
func (b *block) order() {
	slices.SortStableFunc(b.items, func(x, y item) int {
		switch {
		case x.block == nil && y.block != nil:
			return -1
		case x.block != nil && y.block == nil:
			return 1
		}
		return 0
	})
}

// write appends the block as HCL, without a final layout.
func (b *block) write(w *hclText) {
	writeComments(w, b.comment)
	w.comesFrom(b.from)
	if b.kind != "" {
		w.WriteString(b.kind)
		for _, label := range b.labels {
			w.WriteString(" " + quote(label))
		}
		if len(b.items)+len(b.foot) == 0 {
			w.WriteString(" {}\n")
			return
		}
		w.WriteString(" {\n")
	}
	for i, it := range b.items {
		switch {
		case it.block != nil:
			if i > 0 && (!it.block.isLine() || !b.items[i-1].block.isLine()) {
				w.WriteString("\n")
			}
			it.block.write(w)
		default:
			if i > 0 && (b.items[i-1].name == "" || it.name == "" && len(it.comment) > 0) {
				w.WriteString("\n")
			}
			writeComments(w, it.comment)
			if it.name == "" {
				continue
			}
			beside := it.beside
			if beside != "" && strings.Contains(it.expr, "\n") {
				writeComments(w, []string{beside})
				beside = ""
			}
			w.comesFrom(it.from)
			fmt.Fprintf(w, "%s = %s", it.name, it.expr)
			if beside != "" {
				w.WriteString(" " + beside)
			}
			w.WriteString("\n")
		}
	}
	writeComments(w, b.foot)
	if b.kind != "" {
		w.WriteString("}\n")
	}
}

// isLine reports whether the block is one line.
func (b *block) isLine() bool {
	return b != nil && b.kind != "" && len(b.comment)+len(b.items)+len(b.foot) == 0
}

func writeComments(w io.StringWriter, lines []string) {
	for _, line := range lines {
		_, _ = w.WriteString(line + "\n")
	}
}

// quote returns a text as an HCL string.
func quote(text string) string {
	return string(hclwrite.TokensForValue(cty.StringVal(text)).Bytes())
}

var envReference = regexp.MustCompile(envOpen + `(NODEPOOL_[A-Za-z0-9_]*)` + envClose)

// environment are the variables that the input refers to.
type environment map[string]bool

// textExpr returns the expression of a text that may contain references to the environment.
func (env environment) textExpr(text string) string {
	found := envReference.FindAllStringSubmatchIndex(text, -1)
	if len(found) == 0 {
		if doc, ok := heredoc(text); ok {
			return doc
		}
		return quote(text)
	}
	var parts strings.Builder
	last := 0
	for _, at := range found {
		name := text[at[2]:at[3]]
		env[name] = true
		call := "env(" + quote(name) + ")"
		if at[0] == 0 && at[1] == len(text) {
			return call
		}
		before := text[last:at[0]]
		if n := len(before); n > 0 && (before[n-1] == '$' || before[n-1] == '%') { // $${ would be an escape
			parts.WriteString(unquoted(before[:n-1]) + `${"` + before[n-1:] + `"}`)
		} else {
			parts.WriteString(unquoted(before))
		}
		parts.WriteString("${" + call + "}")
		last = at[1]
	}
	parts.WriteString(unquoted(text[last:]))
	return `"` + parts.String() + `"`
}

// unquoted returns a text as a part of an HCL string.
func unquoted(text string) string {
	return strings.TrimSuffix(strings.TrimPrefix(quote(text), `"`), `"`)
}

// heredoc returns a text of several lines as a heredoc.
func heredoc(text string) (string, bool) {
	if strings.Count(text, "\n") < 2 || !strings.HasSuffix(text, "\n") || strings.ContainsFunc(text, func(r rune) bool {
		return r != '\n' && r != '\t' && unicode.IsControl(r) || r == '\ufeff' || r == unicode.ReplacementChar
	}) {
		return "", false
	}
	for line := range strings.SplitSeq(text, "\n") {
		if strings.TrimSpace(line) == "EOT" {
			return "", false
		}
	}
	text = strings.ReplaceAll(strings.ReplaceAll(text, "${", "$${"), "%{", "%%{")
	return "<<EOT\n" + text + "EOT", true
}

// maxWidth is the length at which a list or map gets one line for each element.
const maxWidth = 90

// element is an element of a list or map with its comments.
type element struct {
	key, expr  string
	head, foot []string
	beside     string
}

func (e element) plain() bool { return len(e.head)+len(e.foot) == 0 && e.beside == "" }

// collection returns the expression of a list or, with keys, of a map.
func collection(elements []element, isMap bool) string {
	open, end, sep := "[", "]", ", "
	if isMap {
		open, end = "{", "}"
	}
	if len(elements) == 0 {
		return open + end
	}
	var parts []string
	width, plain := 0, true
	for _, e := range elements {
		part := e.expr
		if isMap {
			part = e.key + " = " + e.expr
		}
		parts = append(parts, part)
		width += len(part) + 2
		plain = plain && e.plain() && !strings.Contains(part, "\n")
	}
	if plain && width <= maxWidth && (!isMap || len(elements) == 1) {
		if isMap {
			return "{ " + strings.Join(parts, sep) + " }"
		}
		return open + strings.Join(parts, sep) + end
	}
	var w strings.Builder
	w.WriteString(open + "\n")
	for i, e := range elements {
		writeComments(&w, e.head)
		comma := ","
		if isMap {
			comma = ""
		}
		if strings.HasSuffix(parts[i], "\nEOT") && !isMap {
			comma = "\n,"
		}
		w.WriteString(parts[i] + comma)
		if e.beside != "" {
			w.WriteString(" " + e.beside)
		}
		w.WriteString("\n")
		writeComments(&w, e.foot)
	}
	w.WriteString(end)
	return w.String()
}

// mapKey returns a key of an object expression.
func mapKey(text string) string {
	if hclsyntax.ValidIdentifier(text) && !slices.Contains([]string{"null", "true", "false", "for"}, text) {
		return text
	}
	return quote(text)
}

// ref returns a reference such as diskimage.name.
func ref(kind, name string) string {
	if hclsyntax.ValidIdentifier(name) {
		return kind + "." + name
	}
	return kind + "[" + quote(name) + "]"
}
