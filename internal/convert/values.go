package convert

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources/schema"
)

// A reader checks the type of a value and returns its expression. It reports an error and returns false if the type
// is wrong.
type reader func(t *translator, n *node) (string, bool)

// readerOf returns the reader of the values of a key.
func readerOf(a schema.Attribute, k schema.NodepoolKey) reader {
	switch {
	case k.Form == schema.AsJSON:
		return jsonText
	case k.Form == schema.AsInverse:
		return rate
	case k.Words != nil:
		return choice(k.Words)
	case a.Format == schema.FormatDuration:
		return seconds
	case a.Type == cty.Bool:
		return boolean
	case a.Type == cty.Number:
		return numeric(a)
	case a.Type == cty.Map(cty.String):
		return textMap
	case a.Type.IsMapType() && a.Type.ElementType() == cty.Number:
		return mapOf(numeric(a))
	case a.Type.IsMapType():
		return mapOf(textOrTexts)
	case a.Type.IsListType():
		return texts
	default:
		return text
	}
}

func text(t *translator, n *node) (string, bool) {
	if n.kind != scalarNode {
		return t.wrong(n, "a text")
	}
	return t.textExpr(n.text), true
}

func hasEnv(n *node) bool { return n.kind == scalarNode && strings.Contains(n.text, envOpen) }

// numeric returns the reader of a number, which is a fraction only if the attribute accepts it. A number below a minimum
// of 0 is 0 in Nodepool, and without limit means null.
func numeric(a schema.Attribute) reader {
	return func(t *translator, n *node) (string, bool) {
		if hasEnv(n) {
			return t.textExpr(n.text), true
		}
		f, ok := n.number()
		switch {
		case ok && hasLimit(a) && math.IsInf(f, 1):
			return "null", true
		case !ok || math.Abs(f) >= 1e15 || f != math.Trunc(f) && a.Check != nil && a.Check(cty.NumberFloatVal(f)) != nil:
			return t.wrong(n, "a whole number")
		case hasLimit(a):
			f = max(f, float64(*a.Min))
		}
		return strconv.FormatFloat(f, 'f', -1, 64), true
	}
}

var integer = numeric(schema.Attribute{Check: schema.CheckWhole})

// hasLimit reports whether Nodepool accepts numbers below the minimum of npctl.
func hasLimit(a schema.Attribute) bool { return a.Min != nil && *a.Min <= 0 }

var yamlTrue, yamlFalse = []string{"true", "yes", "on", "y"}, []string{"false", "no", "off", "n"}

// boolean reads a bool as Nodepool does: in YAML 1.1, yes and on are bools too.
func boolean(t *translator, n *node) (string, bool) {
	if hasEnv(n) {
		return `contains(["true", "yes", "on", "1"], lower(` + t.textExpr(n.text) + "))", true
	}
	if n.kind == scalarNode {
		switch word := strings.ToLower(n.text); {
		case slices.Contains(yamlTrue, word):
			return "true", true
		case slices.Contains(yamlFalse, word):
			return "false", true
		}
		if number, ok := n.whole(); ok && n.y.Tag == "!!int" { // as Python does
			return strconv.FormatBool(number != 0), true
		}
	}
	return t.wrong(n, "true or false")
}

// seconds reads a time in seconds and returns a duration with a unit.
func seconds(t *translator, n *node) (string, bool) {
	if hasEnv(n) {
		return `"${` + t.textExpr(n.text) + `}s"`, true
	}
	if n.kind == scalarNode {
		if f, ok := n.number(); ok && f >= 0 && f < 1e9 {
			if f != math.Trunc(f) {
				return quote(strconv.FormatFloat(f, 'f', -1, 64) + "s"), true
			}
			return quote(duration(int64(f))), true
		}
	}
	return t.wrong(n, "a number of seconds")
}

func duration(s int64) string {
	for _, unit := range []struct {
		seconds int64
		name    string
	}{{86400, "d"}, {3600, "h"}, {60, "m"}} {
		if s >= unit.seconds && s%unit.seconds == 0 && (unit.name != "d" || s > 86400) {
			return fmt.Sprintf("%d%s", s/unit.seconds, unit.name)
		}
	}
	return fmt.Sprintf("%ds", s)
}

// rate reads seconds between calls and returns calls a second, as a quotient if it has many decimals.
func rate(t *translator, n *node) (string, bool) {
	if hasEnv(n) {
		return "1 / " + t.textExpr(n.text), true
	}
	if n.kind == scalarNode {
		if f, ok := n.number(); ok && f >= 0 && !math.IsInf(f, 0) {
			if f == 0 {
				return "0", true
			}
			if inverse := math.Round(1e6/f) / 1e6; inverse < 1e6 && math.Abs(inverse*f-1) < 1e-9 {
				return strconv.FormatFloat(inverse, 'f', -1, 64), true
			}
			return "1 / " + strconv.FormatFloat(f, 'f', -1, 64), true
		}
	}
	return t.wrong(n, "a number of seconds")
}

// texts reads a list of texts; one text is a list with one element.
func texts(t *translator, n *node) (string, bool) {
	if n.kind == scalarNode {
		return "[" + t.textExpr(n.text) + "]", true
	}
	if n.kind == nullNode {
		return "[]", true
	}
	if n.kind != listNode {
		return t.wrong(n, "a list of texts")
	}
	var elements []element
	for _, it := range n.items {
		if it.kind != scalarNode {
			t.fail(it, "%s has an element that is not a text", n.key())
			return "", false
		}
		e := element{expr: t.textExpr(it.text)}
		t.itemComments(it, &e)
		elements = append(elements, e)
	}
	return collection(elements, false), true
}

// choice returns the reader of a bool for which npctl has two words.
func choice(words []string) reader {
	return func(t *translator, n *node) (string, bool) {
		switch expr, ok := boolean(t, n); expr {
		case "true":
			return quote(words[1]), ok
		case "false":
			return quote(words[0]), ok
		default:
			return expr + " ? " + quote(words[1]) + " : " + quote(words[0]), ok
		}
	}
}

// mapOf returns the reader of a mapping by the reader of its elements.
func mapOf(read reader) reader {
	return func(t *translator, n *node) (string, bool) {
		if n.kind != mappingNode {
			return t.wrong(n, "a mapping")
		}
		var elements []element
		for _, e := range n.entries {
			expr, ok := read(t, e.value)
			if !ok {
				return "", false
			}
			elements = append(elements, t.element(e, expr))
		}
		return collection(elements, true), true
	}
}

// element returns the element of a map with the comments of its key.
func (t *translator) element(e *entry, expr string) element {
	out := element{key: mapKey(e.name), expr: expr}
	out.head, out.beside, out.foot = t.keyComments(e)
	return out
}

// textOrTexts reads a text or a list of texts.
func textOrTexts(t *translator, n *node) (string, bool) {
	if n.kind == scalarNode {
		return text(t, n)
	}
	return texts(t, n)
}

// textMap reads a mapping of texts. Numbers and bools become texts.
func textMap(t *translator, n *node) (string, bool) {
	if n.kind == nullNode {
		return "{}", true
	}
	if n.kind != mappingNode {
		return t.wrong(n, "a mapping")
	}
	var elements []element
	ok := true
	for _, e := range n.entries {
		if strings.Contains(e.name, envOpen) {
			t.fail(n, "the key %q contains a reference to the environment; write its value", restoreEnv(e.name))
			ok = false
			continue
		}
		out := element{key: mapKey(e.name)}
		switch e.value.kind {
		case scalarNode:
			out = t.element(e, t.textExpr(asText(e.value)))
			if strings.Contains(out.expr, "\n") && out.beside != "" {
				out.head, out.beside = append(out.head, out.beside), ""
			}
		case nullNode:
			out.expr, out.head = `""`, t.allComments(e)
		default:
			out.head = t.allComments(e)
			out.expr = "jsonencode(" + t.jsonExpr(e.value) + ")"
		}
		elements = append(elements, out)
	}
	return collection(elements, true), ok
}

// asText returns a scalar as the text that Nodepool's programs see.
func asText(n *node) string {
	if n.y.Tag == "!!bool" {
		return strings.ToLower(n.text)
	}
	return n.text
}

// jsonExpr returns any value as an expression.
func (t *translator) jsonExpr(n *node) string {
	var elements []element
	switch n.kind {
	case listNode:
		for _, it := range n.items {
			elements = append(elements, element{expr: t.jsonExpr(it)})
		}
		return collection(elements, false)
	case mappingNode:
		for _, e := range n.entries {
			elements = append(elements, element{key: mapKey(e.name), expr: t.jsonExpr(e.value)})
		}
		return collection(elements, true)
	case nullNode:
		return "null"
	}
	if plainNumber.MatchString(n.text) && n.y.Tag != "!!str" || n.y.Tag == "!!bool" {
		return strings.ToLower(n.text)
	}
	return t.textExpr(n.text)
}

// jsonText reads any value as a JSON text.
func jsonText(t *translator, n *node) (string, bool) {
	return "jsonencode(" + t.jsonExpr(n) + ")", true
}

var plainNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)
