package doctest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const glossary = "docs/glossary.md"

var codeSpan = regexp.MustCompile("`([^`]+)`")

// glossaryRows returns the cells of each row of the glossary's tables, by heading.
func glossaryRows(t *testing.T) map[string][][]string {
	t.Helper()
	rows := map[string][][]string{}
	section := ""
	for line := range strings.SplitSeq(read(t, glossary), "\n") {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			section = heading
		}
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| ---") {
			continue
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		rows[section] = append(rows[section], cells)
	}
	return rows
}

// TestGlossaryIsSorted checks that a table lists each term once, in alphabetical order.
func TestGlossaryIsSorted(t *testing.T) {
	for section, rows := range glossaryRows(t) {
		if rows[0][0] != "term" || len(rows[0]) != 4 {
			continue
		}
		var terms []string
		for _, row := range rows[1:] {
			terms = append(terms, strings.ToLower(row[0]))
		}
		for i := 1; i < len(terms); i++ {
			if terms[i-1] >= terms[i] {
				t.Errorf("%s: %s: %q is listed before %q", glossary, section, terms[i-1], terms[i])
			}
		}
	}
}

// TestGlossaryNamesExist checks that each identifier and package of the glossary exists.
func TestGlossaryNamesExist(t *testing.T) {
	known := exported(t)
	checked := 0
	for section, rows := range glossaryRows(t) {
		for _, row := range rows[1:] {
			if len(row) != 4 {
				continue
			}
			for _, span := range codeSpan.FindAllStringSubmatch(row[3], -1) {
				checked++
				name := span[1]
				if strings.Contains(name, "/") && !strings.Contains(path.Base(name), ".") {
					if info, err := os.Stat(filepath.Join(root, name)); err != nil || !info.IsDir() {
						t.Errorf("%s: %s: %s: there is no package %s", glossary, section, row[0], name)
					}
					continue
				}
				if !slices.Contains(known, path.Base(name)) {
					t.Errorf("%s: %s: %s: there is no %s", glossary, section, row[0], name)
				}
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d identifiers found", checked)
	}
}

// exported lists the exported identifiers of all packages, as package.Name or package.Type.Member, sorted.
func exported(t *testing.T) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == ".git") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, name := range declared(parsed) {
			names = append(names, parsed.Name.Name+"."+name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// declared lists the package-level declarations of a file, the methods and the members of its types.
func declared(file *ast.File) (names []string) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			names = append(names, receiver(d)+d.Name.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range s.Names {
						names = append(names, name.Name)
					}
				case *ast.TypeSpec:
					names = append(names, s.Name.Name)
					for _, member := range members(s.Type) {
						names = append(names, s.Name.Name+"."+member)
					}
				}
			}
		}
	}
	return names
}

// receiver returns the receiver's type with a dot, or "" for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	expr := f.Recv.List[0].Type
	if star, ok := expr.(*ast.StarExpr); ok {
		expr = star.X
	}
	if name, ok := expr.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}

// members lists the fields of a struct type or the methods of an interface type.
func members(expr ast.Expr) (names []string) {
	var list *ast.FieldList
	switch e := expr.(type) {
	case *ast.StructType:
		list = e.Fields
	case *ast.InterfaceType:
		list = e.Methods
	default:
		return nil
	}
	for _, field := range list.List {
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
	}
	return names
}
