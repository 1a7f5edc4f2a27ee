package nodepoolconf

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Limits of the input. The first is also the limit of the secure file.
const (
	maxBytes = 4 << 20
	maxNodes = 200_000 // after the expansion of aliases
	maxDepth = 100
)

// value is a YAML value as PyYAML's safe loader returns it: YAML 1.1, where 010 is 8 and "on" is true. The Go type of a
// scalar is string, int64, float64, bool or nil.
type value struct {
	line   int
	scalar any
	list   []value
	keys   []string // of a mapping, in order
	fields map[string]value
	kind   yaml.Kind // ScalarNode, SequenceNode or MappingNode
}

// environment matches the references that Nodepool replaces in the text of a file.
var environment = regexp.MustCompile(`%\((NODEPOOL_[A-Za-z0-9_]+)\)`)

// parse reads one document after the replacement of environment variables.
func parse(text []byte, env func(string) (string, bool)) (value, error) {
	if len(text) > maxBytes {
		return value{}, fmt.Errorf("the file has %d bytes, the limit is %d", len(text), maxBytes)
	}
	text = environment.ReplaceAllFunc(text, func(match []byte) []byte {
		if env != nil {
			if set, ok := env(string(environment.FindSubmatch(match)[1])); ok {
				return []byte(set)
			}
		}
		return match
	})
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return value{}, err
	}
	if len(document.Content) == 0 {
		return value{kind: yaml.ScalarNode, line: 1}, nil
	}
	p := parser{left: maxNodes}
	return p.value(document.Content[0], 0)
}

type parser struct{ left int }

func (p *parser) value(n *yaml.Node, depth int) (value, error) {
	if p.left--; p.left < 0 {
		return value{}, fmt.Errorf("line %d: more than %d values after the expansion of aliases", n.Line, maxNodes)
	}
	if depth > maxDepth {
		return value{}, fmt.Errorf("line %d: values are nested more than %d levels deep", n.Line, maxDepth)
	}
	v := value{line: n.Line, kind: n.Kind}
	switch n.Kind {
	case yaml.AliasNode:
		return p.value(n.Alias, depth+1)
	case yaml.ScalarNode:
		v.scalar = scalar(n)
	case yaml.SequenceNode:
		for _, item := range n.Content {
			one, err := p.value(item, depth+1)
			if err != nil {
				return value{}, err
			}
			v.list = append(v.list, one)
		}
	case yaml.MappingNode:
		v.fields = map[string]value{}
		return v, p.mapping(&v, n, depth)
	default:
		return value{}, fmt.Errorf("line %d: unexpected YAML", n.Line)
	}
	return v, nil
}

// mapping fills in the merged keys first: a key of the mapping itself overrides them, and of several merged mappings
// the first one wins.
func (p *parser) mapping(v *value, n *yaml.Node, depth int) error {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value != "<<" || n.Content[i].Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
			continue
		}
		source, err := p.value(n.Content[i+1], depth+1)
		if err != nil {
			return err
		}
		sources := []value{source}
		if source.kind == yaml.SequenceNode {
			sources = source.list
		}
		for _, s := range sources {
			if s.kind != yaml.MappingNode {
				return fmt.Errorf("line %d: << needs a mapping", n.Content[i].Line)
			}
			for _, key := range s.keys {
				if _, ok := v.fields[key]; !ok {
					v.set(key, s.fields[key])
				}
			}
		}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Value == "<<" && key.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) == 0 {
			continue
		}
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Kind != yaml.ScalarNode {
			return fmt.Errorf("line %d: a key must be a text", key.Line)
		}
		one, err := p.value(n.Content[i+1], depth+1)
		if err != nil {
			return err
		}
		v.set(value{scalar: scalar(key)}.text(), one)
	}
	return nil
}

func (v *value) set(key string, one value) {
	if _, ok := v.fields[key]; !ok {
		v.keys = append(v.keys, key)
	}
	v.fields[key] = one
}

var (
	wholeNumber = regexp.MustCompile(`^[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)$`)
	baseSixty   = regexp.MustCompile(`^[-+]?[1-9][0-9_]*(:[0-5]?[0-9])+$`)
	fraction    = regexp.MustCompile(`^([-+]?([0-9][0-9_]*)\.[0-9_]*([eE][-+][0-9]+)?|\.[0-9][0-9_]*([eE][-+][0-9]+)?)$`)
	words       = map[string]any{
		"": nil, "~": nil, "null": nil, "Null": nil, "NULL": nil,
		"yes": true, "Yes": true, "YES": true, "true": true, "True": true, "TRUE": true, "on": true, "On": true, "ON": true,
		"no": false, "No": false, "NO": false, "false": false, "False": false, "FALSE": false, "off": false, "Off": false, "OFF": false,
	}
)

// scalar resolves the type of a scalar as PyYAML does.
func scalar(n *yaml.Node) any {
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 || n.Tag == "!!str" && n.Style&yaml.TaggedStyle != 0 {
		return n.Value
	}
	if word, ok := words[n.Value]; ok {
		return word
	}
	plain := strings.ReplaceAll(n.Value, "_", "")
	switch {
	case wholeNumber.MatchString(n.Value):
		if number, err := strconv.ParseInt(plain, 0, 64); err == nil {
			return number
		}
	case baseSixty.MatchString(n.Value):
		var number int64
		for part := range strings.SplitSeq(strings.TrimLeft(plain, "+-"), ":") {
			digit, err := strconv.ParseInt(part, 10, 64)
			if err != nil || number > math.MaxInt64/60-60 {
				return n.Value
			}
			number = number*60 + digit
		}
		if plain[0] == '-' {
			number = -number
		}
		return number
	case fraction.MatchString(n.Value):
		if number, err := strconv.ParseFloat(plain, 64); err == nil {
			return number
		}
	}
	return n.Value
}

// text returns the value as Python's str does, except that true and false are in lower case.
func (v value) text() string {
	switch s := v.scalar.(type) {
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
func (v value) truthy() bool {
	switch v.kind {
	case yaml.SequenceNode:
		return len(v.list) > 0
	case yaml.MappingNode:
		return len(v.fields) > 0
	}
	switch s := v.scalar.(type) {
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

// get returns a key of a mapping, and whether it is there; null counts as absent.
func (v value) get(key string) (value, bool) {
	one, ok := v.fields[key]
	if ok && one.kind == yaml.ScalarNode && one.scalar == nil {
		return one, false
	}
	return one, ok
}

// number returns a number, or false.
func (v value) number() (float64, bool) {
	switch s := v.scalar.(type) {
	case int64:
		return float64(s), true
	case float64:
		return s, true
	case string:
		number, err := strconv.ParseFloat(s, 64) // int("5") in Nodepool's code
		return number, err == nil
	}
	return 0, false
}

func (v value) texts() []string {
	if v.kind == yaml.ScalarNode {
		return strings.Fields(v.text())
	}
	texts := []string{}
	for _, one := range v.list {
		texts = append(texts, one.text())
	}
	return texts
}

func (v value) textMap() map[string]string {
	all := map[string]string{}
	for _, key := range v.keys {
		all[key] = v.fields[key].text()
	}
	return all
}

var errNoMapping = errors.New("the file must be a mapping")
