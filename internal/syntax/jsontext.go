package syntax

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"unicode/utf16"

	"github.com/apparentlymart/go-textseg/v15/textseg"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// text converts a JSON string at a position. A string without template sequences is a literal, as in a quoted text of
// HCL's native syntax. An invalid expression is nil, an invalid template unknown.
func (c *converter) text(text string, at hcl.Range, isExpression bool) hclsyntax.Expression {
	inner := at
	inner.Start.Byte, inner.Start.Column = at.Start.Byte+1, at.Start.Column+1
	inner.End.Byte, inner.End.Column = at.End.Byte-1, at.End.Column-1
	if !isExpression && !strings.Contains(text, "${") && !strings.Contains(text, "%{") {
		literal := &hclsyntax.LiteralValueExpr{Val: cty.StringVal(text), SrcRange: inner}
		return &hclsyntax.TemplateExpr{Parts: []hclsyntax.Expression{literal}, SrcRange: at}
	}
	parse := c.Template
	if isExpression {
		parse = c.Expression
	}
	expr, diags := parse([]byte(text), at.Filename)
	m := &mapping{start: inner.Start, offsets: offsets(c.src[inner.Start.Byte:inner.End.Byte]), moved: map[any]bool{}}
	for _, diag := range diags {
		diag.Subject, diag.Context = m.rangeOf(diag.Subject), m.rangeOf(diag.Context)
	}
	c.diags = append(c.diags, diags...)
	switch {
	case expr == nil && isExpression:
		return nil
	case expr == nil:
		return &hclsyntax.LiteralValueExpr{Val: cty.DynamicVal, SrcRange: at}
	}
	m.move(reflect.ValueOf(expr))
	switch whole := expr.(type) {
	case *hclsyntax.TemplateExpr:
		whole.SrcRange = at
	case *hclsyntax.TemplateWrapExpr:
		whole.SrcRange = at
	}
	return expr
}

// offset is a position in the source of a string, relative to its start.
type offset struct{ bytes, columns int32 }

// offsets returns, for each byte of a decoded JSON string and for its end, the position in the source.
func offsets(source []byte) []offset {
	var all []offset
	var at offset
	for len(source) > 0 {
		var size, decoded, width int
		if source[0] == '\\' {
			size = escapeSize(source)
			decoded, width = len(decodeEscape(source[:size])), size
		} else {
			size, _, _ = textseg.ScanGraphemeClusters(source, true)
			if escape := bytes.IndexByte(source[:size], '\\'); escape > 0 {
				size = escape
			}
			decoded, width = size, 1
		}
		for range decoded {
			all = append(all, at)
		}
		at = offset{at.bytes + int32(size), at.columns + int32(width)}
		source = source[size:]
	}
	return append(all, at)
}

// escapeSize returns the number of bytes of the escape sequence at the start of a valid JSON string.
func escapeSize(source []byte) int {
	if source[1] != 'u' {
		return 2
	}
	if len(source) >= 12 && source[6] == '\\' && source[7] == 'u' && utf16.IsSurrogate(escapedRune(source)) && utf16.DecodeRune(escapedRune(source), escapedRune(source[6:])) != '\uFFFD' {
		return 12
	}
	return 6
}

func escapedRune(source []byte) rune {
	var n rune
	for _, c := range bytes.ToLower(source[2:6]) {
		n = n<<4 + rune(strings.IndexByte("0123456789abcdef", c))
	}
	return n
}

func decodeEscape(escape []byte) (text string) {
	_ = json.Unmarshal([]byte(`"`+string(escape)+`"`), &text) // valid, since the whole string is
	return text
}

// columns counts the characters of a text as users see them.
func columns(text []byte) int {
	n, _ := textseg.TokenCount(text, textseg.ScanGraphemeClusters)
	return n
}

// mapping moves ranges in a decoded text to their places in the source.
type mapping struct {
	start   hcl.Pos
	offsets []offset
	moved   map[any]bool // pointers, since expressions may share nodes
}

func (m *mapping) rangeOf(r *hcl.Range) *hcl.Range {
	if r == nil {
		return nil
	}
	return &hcl.Range{Filename: r.Filename, Start: m.position(r.Start), End: m.position(r.End)}
}

func (m *mapping) position(p hcl.Pos) hcl.Pos {
	by := m.offsets[min(max(0, p.Byte), len(m.offsets)-1)]
	return hcl.Pos{Line: m.start.Line, Column: m.start.Column + int(by.columns), Byte: m.start.Byte + int(by.bytes)}
}

// move changes all ranges in an expression. HCL gives no other access to all of them.
func (m *mapping) move(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || m.moved[v.Interface()] {
			return
		}
		m.moved[v.Interface()] = true
		m.move(v.Elem())
	case reflect.Interface:
		if v.IsNil() {
			return
		}
		if v.Elem().Kind() != reflect.Struct {
			m.move(v.Elem())
			return
		}
		clone := reflect.New(v.Elem().Type()).Elem() // a step of a traversal
		clone.Set(v.Elem())
		m.move(clone)
		v.Set(clone)
	case reflect.Slice:
		for i := range v.Len() {
			m.move(v.Index(i))
		}
	case reflect.Struct:
		switch at := v.Addr().Interface().(type) {
		case *hcl.Range:
			*at = *m.rangeOf(at)
			return
		case *cty.Value:
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				m.move(v.Field(i))
			}
		}
	}
}
