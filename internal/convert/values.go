package convert

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A reader checks the type of a value and returns its expression. It reports an error and returns false if the type
// is wrong.
type reader func(t *translator, n *node) (string, bool)

func text(t *translator, n *node) (string, bool) {
	if n.kind != scalarNode {
		return t.wrong(n, "a text")
	}
	return t.textExpr(n.text), true
}

func hasEnv(n *node) bool { return n.kind == scalarNode && strings.Contains(n.text, envOpen) }

func integer(t *translator, n *node) (string, bool) {
	if hasEnv(n) {
		return t.textExpr(n.text), true
	}
	value, ok := t.wholeNumber(n)
	return strconv.FormatInt(value, 10), ok
}

func (t *translator) wholeNumber(n *node) (int64, bool) {
	value, ok := n.whole()
	if !ok {
		t.wrong(n, "a whole number")
	}
	return value, ok
}

// whole returns a whole number.
func (n *node) whole() (int64, bool) {
	if f, ok := number(n.text); n.kind == scalarNode && ok && f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return int64(f), true
	}
	return 0, false
}

// number reads a number of YAML 1.1, such as 010, 0x10 and 1_000.
func number(text string) (float64, bool) {
	if i, err := strconv.ParseInt(text, 0, 64); err == nil {
		return float64(i), true
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
	return f, err == nil && !math.IsNaN(f)
}

// limit reads the upper limit of a pool; Nodepool treats a negative number as 0.
func limit(t *translator, n *node) (string, bool) {
	if hasEnv(n) {
		return t.textExpr(n.text), true
	}
	if n.kind == scalarNode && slices.Contains([]string{".inf", "inf"}, strings.ToLower(n.text)) {
		return "null", true
	}
	value, ok := t.wholeNumber(n)
	return strconv.FormatInt(max(value, 0), 10), ok
}

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
		if f, ok := number(n.text); ok && f >= 0 && f < 1e9 {
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
		if f, ok := number(n.text); ok && f >= 0 && !math.IsInf(f, 0) {
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

// names reads networks and similar lists, in which old configurations have mappings with a name.
func names(t *translator, n *node) (string, bool) {
	if n.kind == listNode {
		flat := *n
		flat.items = nil
		for _, it := range n.items {
			if e := it.get("name"); it.kind == mappingNode && e != nil && e.value.kind == scalarNode {
				t.markAll(it, Converted, "the name is an element of the list", "")
				it = e.value
			}
			flat.items = append(flat.items, it)
		}
		n = &flat
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
		var out element
		if strings.Contains(e.name, envOpen) {
			t.fail(n, "the key %q contains a reference to the environment; write its value", restoreEnv(e.name))
			ok = false
			continue
		}
		out.key = mapKey(e.name)
		switch e.value.kind {
		case scalarNode:
			out.expr = t.textExpr(asText(e.value))
			out.head, out.beside, out.foot = t.keyComments(e)
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

var plainNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)
