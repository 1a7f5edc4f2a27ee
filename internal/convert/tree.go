package convert

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	words "github.com/npctl/npctl/internal/text"
)

// The limits of the input. Aliases count once for each use.
const (
	maxBytes = 4 << 20
	maxNodes = 300_000
	maxDepth = 100
)

type kind int

const (
	scalarNode kind = iota
	mappingNode
	listNode
	nullNode
)

// node is a value of the YAML, with aliases and merges resolved.
type node struct {
	src     *source
	y       *yaml.Node // the value itself, not an alias
	kind    kind
	line    int
	path    string
	text    string // of a scalar; %(NODEPOOL_X) is envOpen + NODEPOOL_X + envClose
	entries []*entry
	items   []*node
}

// entry is a key of a mapping.
type entry struct {
	key   *yaml.Node
	name  string
	path  string
	line  int
	value *node
	done  bool // the report has an entry for the key
	// beside are further YAML nodes with comments of the key.
	beside []*yaml.Node
}

// get returns an entry of a mapping, or nil.
func (n *node) get(name string) *entry {
	if n == nil {
		return nil
	}
	for _, e := range n.entries {
		if e.name == name {
			return e
		}
	}
	return nil
}

// place returns the key as a value, for its line.
func (e *entry) place() *node { return &node{src: e.value.src, line: e.line} }

// textOf returns the text of a key, or "".
func (n *node) textOf(name string) string {
	if e := n.get(name); e != nil && e.value.kind == scalarNode {
		return e.value.text
	}
	return ""
}

// key returns the last key of the path.
func (n *node) key() string { return n.path[strings.LastIndexByte(n.path, '.')+1:] }

// unchecked returns the elements of a list, or none.
func (e *entry) unchecked() []*node {
	if e == nil {
		return nil
	}
	return e.value.items
}

// set reports whether the key has a value other than null.
func (e *entry) set() bool { return e != nil && e.value.kind != nullNode }

// source reads one file.
type source struct {
	*problems
	*report
	name   string
	text   []byte
	secure bool
	// env has the values of references to the environment; nil means that they stay references.
	env   func(string) (string, bool)
	nodes int
	over  bool
}

// Characters for private use take the place of %(NODEPOOL_X): a YAML value cannot start with a percent sign.
const envOpen, envClose = "\ue0f0", "\ue0f1"

var interpolation = regexp.MustCompile(`%\((NODEPOOL_[A-Za-z0-9_]*)\)`)

func (s *source) read() *node {
	empty := &node{src: s, kind: nullNode, y: &yaml.Node{}, line: 0}
	if len(s.text) > maxBytes {
		s.fail(empty, "the file has more than %d MiB", maxBytes>>20)
		return empty
	}
	if bytes.Contains(s.text, []byte(envOpen)) || bytes.Contains(s.text, []byte(envClose)) {
		s.fail(empty, "the file contains the characters U+E0F0 or U+E0F1, which npctl convert uses itself")
		return empty
	}
	text := interpolation.ReplaceAllFunc(s.text, func(match []byte) []byte {
		name := string(match[2 : len(match)-1])
		if s.env == nil {
			return []byte(envOpen + name + envClose)
		}
		if value, ok := s.env(name); ok {
			return []byte(value)
		}
		return match
	})
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return empty
	} else if err != nil {
		s.syntax(empty, err)
		return empty
	}
	if err := decoder.Decode(&more); err == nil {
		s.fail(&node{src: s, line: more.Line}, "the file has a second document; Nodepool reads one")
		return empty
	} else if !errors.Is(err, io.EOF) {
		s.syntax(empty, err)
		return empty
	}
	root := s.build(doc.Content[0], "", nil)
	if doc.HeadComment != "" || doc.FootComment != "" {
		root.y.HeadComment = join(doc.HeadComment, root.y.HeadComment)
		root.y.FootComment = join(root.y.FootComment, doc.FootComment)
	}
	return root
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

func (s *source) syntax(empty *node, err error) {
	reason, line := err.Error(), 0
	if m := yamlLine.FindStringSubmatch(reason); m != nil {
		line, _ = strconv.Atoi(m[1])
		reason = m[2]
	}
	value := ""
	if lines := bytes.Split(s.text, []byte("\n")); line > 0 && line <= len(lines) && !s.secure {
		value = fmt.Sprintf(", near %q", words.Shorten(strings.TrimSpace(string(lines[line-1])), 60))
	}
	if s.secure { // the reason can contain a part of a value
		reason = "the file is not valid YAML"
	} else {
		reason = "invalid YAML: " + reason
	}
	s.fail(&node{src: s, line: line, y: empty.y}, "%s%s", reason, value)
}

// build resolves a YAML node. above are the anchors that contain it.
func (s *source) build(y *yaml.Node, path string, above []*yaml.Node) *node {
	n := &node{src: s, y: y, line: y.Line, path: path}
	s.nodes++
	if s.nodes > maxNodes || len(above) > maxDepth {
		if !s.over {
			s.fail(n, "the file is too large: it has more than %d values after its aliases are resolved, or more than %d levels", maxNodes, maxDepth)
		}
		s.over = true
		n.kind = nullNode
		return n
	}
	if y.Kind == yaml.AliasNode {
		if slices.Contains(above, y.Alias) {
			s.fail(n, "the alias *%s refers to a value that contains it", y.Value)
			n.kind = nullNode
			return n
		}
		return s.build(y.Alias, path, above)
	}
	above = append(slices.Clip(above), y)
	switch y.Kind {
	case yaml.MappingNode:
		n.kind = mappingNode
		s.mapping(n, above)
	case yaml.SequenceNode:
		n.kind = listNode
		for i, item := range y.Content {
			n.items = append(n.items, s.build(item, path+"["+itemName(item, i)+"]", above))
		}
	default:
		n.kind, n.text = scalarNode, y.Value
		if y.Tag == "!!null" {
			n.kind = nullNode
		}
	}
	return n
}

// itemName identifies an item of a list in a path: by its name, or by its position.
func itemName(y *yaml.Node, i int) string {
	for y.Kind == yaml.AliasNode {
		y = y.Alias
	}
	if y.Kind == yaml.MappingNode {
		for k := 0; k+1 < len(y.Content); k += 2 {
			key, value := y.Content[k].Value, y.Content[k+1]
			for value.Kind == yaml.AliasNode {
				value = value.Alias
			}
			if (key == "name" || key == "tenant-name") && value.Kind == yaml.ScalarNode {
				return restoreEnv(value.Value)
			}
		}
	}
	return strconv.Itoa(i)
}

// mapping reads the keys. The own keys of a mapping override those of the mappings that it merges.
func (s *source) mapping(n *node, above []*yaml.Node) {
	var merged []*node
	lines := map[string]int{}
	for i := 0; i+1 < len(n.y.Content); i += 2 {
		key, value := n.y.Content[i], n.y.Content[i+1]
		for key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Kind != yaml.ScalarNode {
			s.fail(&node{src: s, line: key.Line}, "the key of a mapping is not a text")
			continue
		}
		if key.Tag == "!!merge" {
			part := s.build(value, n.path, above)
			parts := []*node{part}
			if part.kind == listNode {
				parts = part.items
			}
			for _, p := range parts {
				if p.kind != mappingNode && !s.over {
					s.fail(p, "<< merges something that is not a mapping")
				}
			}
			merged = append(merged, parts...)
			continue
		}
		if line, twice := lines[key.Value]; twice { // the last one counts
			earlier := n.get(key.Value)
			s.entries = append(s.entries, Entry{s.name, earlier.path, line, NoEffect, fmt.Sprintf("the key is set again on line %d", key.Line), ""})
			n.entries = slices.DeleteFunc(n.entries, func(e *entry) bool { return e == earlier })
		}
		lines[key.Value] = key.Line
		path := restoreEnv(key.Value)
		if n.path != "" {
			path = n.path + "." + path
		}
		n.entries = append(n.entries, &entry{key: key, name: key.Value, path: path, line: key.Line, value: s.build(value, path, above)})
	}
	for _, m := range merged {
		for _, e := range m.entries {
			if n.get(e.name) != nil {
				continue
			}
			path := strings.TrimPrefix(n.path+"."+e.name, ".")
			n.entries = append(n.entries, &entry{key: e.key, name: e.name, path: path, line: e.line, value: s.build(e.value.y, path, above)})
		}
	}
}

// restoreEnv writes references to the environment as the input does.
func restoreEnv(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, envOpen, "%("), envClose, ")")
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}
