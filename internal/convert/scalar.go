package convert

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

var (
	wholeNumber = regexp.MustCompile(`^[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)$`)
	baseSixty   = regexp.MustCompile(`^[-+]?[1-9][0-9_]*(:[0-5]?[0-9])+$`)
	fraction    = regexp.MustCompile(`^([-+]?([0-9][0-9_]*)\.[0-9_]*([eE][-+][0-9]+)?|\.[0-9][0-9_]*([eE][-+][0-9]+)?)$`)
	scalars     = map[string]any{
		"": nil, "~": nil, "null": nil, "Null": nil, "NULL": nil,
		"yes": true, "Yes": true, "YES": true, "true": true, "True": true, "TRUE": true, "on": true, "On": true, "ON": true,
		"no": false, "No": false, "NO": false, "false": false, "False": false, "FALSE": false, "off": false, "Off": false, "OFF": false,
		".inf": math.Inf(1), ".Inf": math.Inf(1), ".INF": math.Inf(1),
	}
)

// scalarOf returns a text of nodepool.yaml without quotes.
func scalarOf(text string) *node {
	return &node{kind: scalarNode, text: text, y: &yaml.Node{Kind: yaml.ScalarNode, Value: text}}
}

// scalar returns the value as PyYAML's safe loader does: YAML 1.1, where 010 is 8 and "on" is true. Its type is string, int64,
// float64, bool or nil.
func (n *node) scalar() any {
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	if n.kind != scalarNode {
		return nil
	}
	if n.y.Style&quoted != 0 || n.y.Tag == "!!str" && n.y.Style&yaml.TaggedStyle != 0 {
		return n.text
	}
	if word, ok := scalars[n.text]; ok {
		return word
	}
	plain := strings.ReplaceAll(n.text, "_", "")
	switch {
	case wholeNumber.MatchString(n.text):
		if number, err := strconv.ParseInt(plain, 0, 64); err == nil {
			return number
		}
	case baseSixty.MatchString(n.text):
		var number int64
		for part := range strings.SplitSeq(strings.TrimLeft(plain, "+-"), ":") {
			digit, err := strconv.ParseInt(part, 10, 64)
			if err != nil || number > math.MaxInt64/60-60 {
				return n.text
			}
			number = number*60 + digit
		}
		if plain[0] == '-' {
			number = -number
		}
		return number
	case fraction.MatchString(n.text):
		if number, err := strconv.ParseFloat(plain, 64); err == nil {
			return number
		}
	}
	return n.text
}

// pythonText returns the value as Python's str does, except that true and false are in lower case.
func (n *node) pythonText() string {
	switch s := n.scalar().(type) {
	case string:
		return s
	case int64:
		return strconv.FormatInt(s, 10)
	case float64:
		text := strconv.FormatFloat(s, 'g', -1, 64)
		if !strings.ContainsAny(text, ".eIN") {
			text += ".0"
		}
		return text
	case bool:
		return strconv.FormatBool(s)
	}
	return ""
}

// truthy is Python's idea of a true value.
func (n *node) truthy() bool {
	switch n.kind {
	case listNode:
		return len(n.items) > 0
	case mappingNode:
		return len(n.entries) > 0
	}
	switch s := n.scalar().(type) {
	case string:
		return s != ""
	case int64:
		return s != 0
	case float64:
		return s != 0
	case bool:
		return s
	}
	return false
}

// number returns a number, also one in quotes, as int in Nodepool's code does.
func (n *node) number() (float64, bool) {
	switch s := n.scalar().(type) {
	case int64:
		return float64(s), true
	case float64:
		return s, true
	case string:
		number, err := strconv.ParseFloat(s, 64)
		return number, err == nil && !math.IsNaN(number)
	}
	return 0, false
}

// whole returns a whole number.
func (n *node) whole() (int64, bool) {
	if f, ok := n.number(); ok && f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return int64(f), true
	}
	return 0, false
}

// pythonTexts returns the elements of a list; one text is a list with one element.
func (n *node) pythonTexts() []string {
	texts := []string{}
	if n.kind == scalarNode {
		return append(texts, n.pythonText())
	}
	for _, it := range n.items {
		texts = append(texts, it.pythonText())
	}
	return texts
}

// document returns the value as the types of encoding/json.
func (n *node) document() any {
	switch n.kind {
	case listNode:
		all := []any{}
		for _, it := range n.items {
			all = append(all, it.document())
		}
		return all
	case mappingNode:
		all := map[string]any{}
		for _, e := range n.entries {
			all[e.name] = e.value.document()
		}
		return all
	default:
		return n.scalar()
	}
}
