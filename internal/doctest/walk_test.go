package doctest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const architecture = "docs/architecture.md"

// hop is a function in a walk of docs/architecture.md.
type hop struct {
	walk     string // heading
	line     int
	function string // Type.method or function
	file     string
	caller   *hop // the hop above in the nested list; nil for the start of a goroutine, and for calls through a table
	before   *hop // the previous hop with the same caller
}

var hopLine = regexp.MustCompile("^( *)- `([A-Za-z.]+)` \\(`([a-z/]+\\.go)`\\): ")

// hops returns the walks of docs/architecture.md, by heading.
func hops(t *testing.T) map[string][]*hop {
	t.Helper()
	walks := map[string][]*hop{}
	heading := ""
	var callers []*hop // by depth
	for i, line := range strings.Split(read(t, architecture), "\n") {
		if strings.HasPrefix(line, "#") {
			heading = strings.TrimLeft(line, "# ")
		}
		found := hopLine.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		h := &hop{walk: heading, line: i + 1, function: found[2], file: found[3]}
		depth := len(found[1]) / 2
		if depth > len(callers) {
			t.Fatalf("%s:%d: %s is two levels below the hop above", architecture, h.line, h.function)
		}
		if depth > 0 {
			h.caller = callers[depth-1]
			if depth < len(callers) {
				h.before = callers[depth]
			}
		}
		callers = append(callers[:depth], h)
		walks[heading] = append(walks[heading], h)
	}
	return walks
}

// TestWalksFollowTheCalls checks that each function of a walk is declared in its file, that its caller refers to it,
// and that the hops of a caller are in the order of its source.
func TestWalksFollowTheCalls(t *testing.T) {
	bodies := map[*hop]*ast.BlockStmt{}
	files := map[string]*ast.File{}
	for _, walk := range hops(t) {
		for _, h := range walk {
			if files[h.file] == nil {
				parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, h.file), nil, parser.SkipObjectResolution)
				if err != nil {
					t.Errorf("%s:%d: %v", architecture, h.line, err)
					continue
				}
				files[h.file] = parsed
			}
			for _, decl := range files[h.file].Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && receiver(f)+f.Name.Name == h.function {
					bodies[h] = f.Body
				}
			}
			switch {
			case bodies[h] == nil:
				t.Errorf("%s:%d: %s has no function %s", architecture, h.line, h.file, h.function)
			case h.caller == nil || bodies[h.caller] == nil:
			case !refersAfter(bodies[h.caller], h.name(), firstUse(bodies[h.caller], h.before)):
				t.Errorf("%s:%d: %s does not refer to %s after the hop before it", architecture, h.line, h.caller.function, h.function)
			}
		}
	}
}

func (h *hop) name() string { return strings.TrimPrefix(path.Ext("."+h.function), ".") }

// firstUse returns the position of the first reference to a hop in a body, or that of the body for nil.
func firstUse(body *ast.BlockStmt, h *hop) (first token.Pos) {
	first = body.Pos()
	if h == nil {
		return first
	}
	ast.Inspect(body, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.Name == h.name() && first == body.Pos() {
			first = id.Pos()
		}
		return true
	})
	return first
}

// refersAfter reports whether a body refers to a name behind a position.
func refersAfter(body *ast.BlockStmt, name string, at token.Pos) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.Name == name && id.Pos() > at {
			found = true
		}
		return !found
	})
	return found
}
