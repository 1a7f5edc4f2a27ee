package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// pattern is the order of the groups in a list.
var pattern = strings.Fields("plan reconcile drivers state plan reconcile drivers plan reconcile drivers " +
	"state plan reconcile drivers plan reconcile drivers state plan reconcile")

// mutation is one change of one place. Its identity is file, function, operator and ordinal.
type mutation struct {
	file, function, operator string
	ordinal, line            int
	before, after            string // on one line, shortened
	source                   []byte
	start, end               int // the bytes of source that text replaces
	text                     string
}

func (m mutation) String() string {
	return fmt.Sprintf("%s:%d: %s %s#%d: %s → %s", m.file, m.line, m.operator, m.function, m.ordinal, m.before, m.after)
}

// mutant returns the whole file with the mutation.
func (m mutation) mutant() []byte {
	return slices.Concat(m.source[:m.start], []byte(m.text), m.source[m.end:])
}

// tests returns the packages to test, nearest first. Those of ownership have to be found near the place.
func (m mutation) tests() [][]string {
	stages := m.stages()
	if m.operator == trustAll {
		return stages[:2]
	}
	return stages
}

// service returns the command of the tests that need a service and have to find a mutation of ownership, or nil: the groups of the contract
// about ownership, and the driver's own tests. None of them runs npctl, which the script would build as a mutant in bin.
func (m mutation) service() []string {
	own := path.Dir(m.file)
	script, ok := map[string][]string{
		"drivers/aws":        {"test/clouds/run.sh", "-run=^TestMoto/^(Instances|Images|Sweeper|Adopter|Copies|Foreign|snapshot|image)$"},
		"drivers/kubernetes": {"test/kubernetes/run.sh", "-run=^TestContract$/^(kubernetes_pod|openshift_project|openshiftpods)$/^(Instances|Access|Copies|Foreign|Errors)$"},
	}[own]
	if !ok || m.operator != trustAll {
		return nil
	}
	return append([]string{"env", "NPCTL=" + os.DevNull, "PKG=./" + own}, script...)
}

func (m mutation) stages() [][]string {
	own := path.Dir(m.file)
	stages := [][]string{{"./" + own}}
	switch group(own) {
	case "plan":
		return append(stages, []string{"./plan/..."}, []string{"./reconcile"}, []string{"./watch"}, []string{"./cmd/npctl"})
	case "reconcile":
		return append(stages, []string{"./watch/..."}, []string{"./cmd/npctl"})
	case "state":
		return append(stages, []string{"./state/..."}, []string{"./reconcile"}, []string{"./watch"}, []string{"./cmd/npctl"})
	}
	stages = append(stages, []string{"./" + own + "/..."})
	if own == "drivers" {
		stages = append(stages, []string{"./reconcile"}, []string{"./watch"})
	}
	return append(stages, []string{"./cmd/npctl"})
}

// group returns the group of a package, "" if it is not mutated.
func group(dir string) string {
	switch {
	case dir == "plan", dir == "reconcile", dir == "state":
		return dir
	case dir == "state/bolt":
		return "state"
	case strings.HasSuffix(dir, "test"), strings.Contains(dir, "test/"), dir == "drivers/external/conformance":
		return ""
	case dir == "drivers", strings.HasPrefix(dir, "drivers/"):
		return "drivers"
	}
	return ""
}

// readGroups returns all mutations of each group, in the order of files and places.
func readGroups(root string) (map[string][]mutation, error) {
	groups := map[string][]mutation{}
	for _, top := range []string{"drivers", "plan", "reconcile", "state"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			relative, err := filepath.Rel(root, file)
			if err != nil {
				return err
			}
			name := filepath.ToSlash(relative)
			if built, err := build.Default.MatchFile(filepath.Split(file)); err != nil || !built || group(path.Dir(name)) == "" {
				return err
			}
			source, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			found, err := sites(name, source)
			groups[group(path.Dir(name))] = append(groups[group(path.Dir(name))], found...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return groups, nil
}

// shuffle returns the mutations of each group in the order of the draw. Operators take turns by chance with equal
// weight, because conditions outnumber everything else.
func shuffle(groups map[string][]mutation, seed uint64) map[string][]mutation {
	shuffled := map[string][]mutation{}
	for i, name := range slices.Sorted(maps.Keys(groups)) {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		rest := map[string][]mutation{}
		for _, m := range groups[name] {
			if m.operator != trustAll {
				rest[m.operator] = append(rest[m.operator], m)
			}
		}
		for len(rest) > 0 {
			operators := slices.Sorted(maps.Keys(rest))
			operator := operators[random.IntN(len(operators))]
			i := random.IntN(len(rest[operator]))
			shuffled[name] = append(shuffled[name], rest[operator][i])
			if rest[operator] = slices.Delete(rest[operator], i, i+1); len(rest[operator]) == 0 {
				delete(rest, operator)
			}
		}
	}
	return shuffled
}

var listed = regexp.MustCompile(`^(\S+):\d+: (\S+) (\S+)#(\d+): (.*) → (.*)$`)

// find returns the mutation of a line of a list: the one of the ordinal if its text is the same, else the only one
// with that text in the function.
func find(groups map[string][]mutation, line string) (mutation, bool) {
	fields := listed.FindStringSubmatch(line)
	if fields == nil {
		return mutation{}, false
	}
	var same []mutation
	for _, m := range groups[group(path.Dir(fields[1]))] {
		if path.Dir(m.file) == path.Dir(fields[1]) && m.operator == fields[2] && m.function == fields[3] && m.before == fields[5] {
			if fmt.Sprint(m.ordinal) == fields[4] {
				return m, true
			}
			same = append(same, m)
		}
	}
	if len(same) != 1 {
		return mutation{}, false
	}
	return same[0], true
}

// sites returns the mutations of a file in the order of their places.
func sites(name string, source []byte) ([]mutation, error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	c := collector{files: files, name: name, source: source}
	for _, decl := range parsed.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil && !buildsText(f) {
			c.read(f)
		}
	}
	return c.found, nil
}

// buildsText reports whether the result of a function is words for people.
func buildsText(f *ast.FuncDecl) bool {
	results := f.Type.Results
	return results != nil && len(results.List) == 1 && isIdent(results.List[0].Type, "string")
}

func isIdent(e ast.Expr, name string) bool {
	i, ok := e.(*ast.Ident)
	return ok && i.Name == name
}

// collector gathers the mutations of one file.
type collector struct {
	files    *token.FileSet
	name     string
	source   []byte
	function string
	ordinals map[string]int
	found    []mutation
}

var swapped = map[token.Token]token.Token{
	token.LAND: token.LOR, token.LOR: token.LAND, token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
}

func (c *collector) read(f *ast.FuncDecl) {
	c.ordinals = map[string]int{}
	c.function = f.Name.Name
	if f.Recv != nil {
		c.function = strings.Trim(c.at(f.Recv.List[0].Type.Pos(), f.Recv.List[0].Type.End()), "*") + "." + f.Name.Name
	}
	if results := f.Type.Results; results != nil && len(results.List) == 1 && isIdent(results.List[0].Type, "error") {
		for _, statement := range f.Body.List[:max(0, len(f.Body.List)-1)] {
			text := c.at(statement.Pos(), statement.End())
			c.add("return-nil", statement, "return nil; "+text, "return nil; "+text)
		}
	}
	whole := map[ast.Expr]bool{} // conditions whose comparison is negated as a whole
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			whole[n.Cond] = true
			c.add("negate-if", n.Cond, "!("+c.at(n.Cond.Pos(), n.Cond.End())+")", "")
		case *ast.BinaryExpr:
			c.trustOwner(n)
			equality := n.Op == token.EQL || n.Op == token.NEQ
			if to, ok := swapped[n.Op]; ok && (!equality || !whole[n]) {
				left, right := c.at(n.Pos(), n.OpPos), c.at(n.OpPos+token.Pos(len(n.Op.String())), n.End())
				operator := "swap-comparison"
				if n.Op == token.LAND || n.Op == token.LOR {
					operator = "swap-and-or"
					left, right = "("+left+")", "("+right+")" // keeps the grouping
				}
				c.add(operator, n, "("+left+to.String()+right+")", "")
			}
		case *ast.ExprStmt, *ast.IncDecStmt:
			return c.statement(n.(ast.Stmt))
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				return c.statement(n)
			}
		case *ast.CallExpr:
			c.trust(n)
		case *ast.Ident:
			if n.Name == "true" || n.Name == "false" {
				c.add("swap-bool", n, map[string]string{"true": "false", "false": "true"}[n.Name], "")
			}
		}
		return true
	})
}

// trustAll takes every object for npctl's, or for one of the expected record: the operator of -ownership, which no draw has.
const trustAll = "trust"

// trust replaces a check of the owner of an object. Its operands stay, so that the mutant has no unused variables and imports.
func (c *collector) trust(call *ast.CallExpr) {
	name, receiver := "", ""
	switch f := call.Fun.(type) {
	case *ast.Ident:
		name = f.Name
	case *ast.SelectorExpr:
		name, receiver = f.Sel.Name, c.at(f.X.Pos(), f.X.End())
	}
	arguments := c.at(call.Lparen+1, call.Rparen)
	switch name {
	case "SameRecord":
		c.add(trustAll, call, "func(...any) bool { return true }("+receiver+", "+arguments+")", "true")
	case "CheckOwner", "CheckAdoptable", "CheckLeftover":
		c.add(trustAll, call, "func(...any) error { return nil }("+c.at(call.Fun.Pos(), call.Fun.End())+", "+arguments+")", "nil")
	case "OnlyOf":
		c.add(trustAll, call, "func(_ any, marks resources.OwnerTags) resources.OwnerTags { return marks }("+arguments+")", "any type")
	case "OwnerOf":
		c.add(trustAll, call, "func(tags map[string]string, _ any, _ ...string) resources.OwnerTags { return "+receiver+".DecodeTags(tags) }("+arguments+")", "DecodeTags")
	}
}

// trustOwner replaces a comparison with the tags of no owner.
func (c *collector) trustOwner(n *ast.BinaryExpr) {
	left, right := c.at(n.X.Pos(), n.X.End()), c.at(n.Y.Pos(), n.Y.End())
	if right != "(resources.OwnerTags{})" && (right != `""` || !strings.HasSuffix(left, ".Installation")) {
		return
	}
	switch n.Op {
	case token.EQL:
		c.add(trustAll, n, "func(...any) bool { return false }("+left+")", "false")
	case token.NEQ:
		c.add(trustAll, n, "func(...any) bool { return true }("+left+")", "true")
	}
}

// ownership returns all mutations by trustAll.
func ownership(groups map[string][]mutation) []string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		for _, m := range groups[name] {
			if m.operator == trustAll {
				lines = append(lines, m.String())
			}
		}
	}
	return lines
}

var notBehaviour = regexp.MustCompile(`(?i)^[\w.()]*(log|slog|logger)\b[^(]*\(|\.(Debug|Info|Warn|Error)(Context)?\(|` +
	`(Printf?|Println|WriteString|WriteByte|Lock|Unlock|RLock|RUnlock)\(`)

// statement adds the deletion of a call or an assignment, and reports whether to mutate what is inside it.
func (c *collector) statement(s ast.Stmt) bool {
	text := c.at(s.Pos(), s.End())
	if first, _, _ := strings.Cut(text, "{"); notBehaviour.MatchString(first) {
		return false
	}
	c.add("delete-statement", s, "", "(nothing)")
	return true
}

// add records one mutation; shown is what a list shows for text, if it differs.
func (c *collector) add(operator string, n ast.Node, text, shown string) {
	if shown == "" {
		shown = text
	}
	c.ordinals[operator]++
	c.found = append(c.found, mutation{
		file: c.name, function: c.function, operator: operator, ordinal: c.ordinals[operator],
		line:   c.files.Position(n.Pos()).Line,
		before: short(c.at(n.Pos(), n.End())), after: short(shown),
		source: c.source, start: c.files.Position(n.Pos()).Offset, end: c.files.Position(n.End()).Offset, text: text,
	})
}

func (c *collector) at(from, to token.Pos) string {
	return string(c.source[c.files.Position(from).Offset:c.files.Position(to).Offset])
}

// short returns text on one line of at most 100 characters.
func short(text string) string {
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > 100 {
		return string(runes[:99]) + "…"
	}
	return string(runes)
}
