package convert

import (
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// emitted are the YAML nodes with comments that are in the output already.
type emitted map[*yaml.Node]bool

// comments returns the comments at a value itself. The second call for the same YAML node returns none, so that a
// comment at an anchor occurs once.
func (c emitted) comments(n *node) []string {
	if c[n.y] {
		return nil
	}
	c[n.y] = true
	return append(append(commentLines(n.y.HeadComment), commentLines(n.y.LineComment)...), commentLines(n.y.FootComment)...)
}

// keyComments returns the comments above, beside and below a key and its scalar value.
func (c emitted) keyComments(e *entry) (head []string, beside string, foot []string) {
	if c[e.key] {
		return nil, "", nil
	}
	c[e.key] = true
	for _, y := range e.beside {
		head = append(head, c.comments(&node{y: y})...)
	}
	head = append(head, commentLines(e.key.HeadComment)...)
	foot = commentLines(e.key.FootComment)
	lines := commentLines(e.key.LineComment)
	y := e.value.y
	if !c[y] && y.Kind == yaml.ScalarNode {
		c[y] = true
		head = append(head, commentLines(y.HeadComment)...)
		lines = append(lines, commentLines(y.LineComment)...)
		foot = append(foot, commentLines(y.FootComment)...)
	}
	if len(lines) == 1 {
		return head, lines[0], foot
	}
	return append(head, lines...), "", foot
}

// allComments returns the comments of a key and of everything below it.
func (c emitted) allComments(e *entry) []string {
	head, beside, foot := c.keyComments(e)
	if beside != "" {
		head = append(head, beside)
	}
	return append(append(head, c.deep(e.value.y, 0)...), foot...)
}

// leftComments returns the comments of the input that are not in the output yet.
func (c emitted) leftComments(n *node) []string { return c.deep(n.y, 0) }

func (c emitted) deep(y *yaml.Node, depth int) []string {
	if depth > maxDepth {
		return nil
	}
	fresh := !c[y]
	c[y] = true
	var out []string
	if fresh {
		out = append(commentLines(y.HeadComment), commentLines(y.LineComment)...)
	}
	for _, inner := range y.Content {
		out = append(out, c.deep(inner, depth+1)...)
	}
	if fresh {
		out = append(out, commentLines(y.FootComment)...)
	}
	return out
}

// lostComments returns comments at positions for which the YAML library does not report them, such as behind the
// bracket that opens a list.
func lostComments(root *node) []string {
	var all strings.Builder // all comments and texts
	var walk func(y *yaml.Node)
	walk = func(y *yaml.Node) {
		for _, text := range []string{y.HeadComment, y.LineComment, y.FootComment, y.Value} {
			all.WriteString(text + "\n")
		}
		for _, inner := range y.Content {
			walk(inner)
		}
	}
	walk(root.y)
	known := restoreEnv(all.String())
	var lost []string
	for line := range strings.SplitSeq(string(root.src.text), "\n") {
		at := strings.LastIndex(" "+line, " #")
		if at < 0 {
			continue
		}
		if comment := strings.TrimSpace(line[at:]); !strings.Contains(known, comment) && utf8.ValidString(comment) {
			lost = append(lost, comment)
		}
	}
	return lost
}

// itemComments sets the comments of an element of a list.
func (c emitted) itemComments(n *node, e *element) {
	if c[n.y] {
		return
	}
	c[n.y] = true
	e.head, e.foot = commentLines(n.y.HeadComment), commentLines(n.y.FootComment)
	if lines := commentLines(n.y.LineComment); len(lines) == 1 {
		e.beside = lines[0]
	} else {
		e.head = append(e.head, lines...)
	}
}

// commentLines returns the lines of a YAML comment in HCL.
func commentLines(text string) []string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimRight(restoreEnv(line), " \t\r")
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
