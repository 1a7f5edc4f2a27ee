// Package arrows holds the test that keeps npctl's packages from knowing more of each other than they should.
package arrows

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/npctl/npctl"

// arrows says what each package may import of ours, by longest prefix. "x/*" means any package below x. A new arrow is
// a decision: say why in the commit that adds it here.
var arrows = map[string][]string{
	"resources":        {"resources/schema"},
	"resources/schema": {},
	"config":           {"resources", "resources/schema", "internal/schedule", "internal/syntax"},
	"plan":             {"resources", "internal/schedule"},
	"plan/render":      {"plan", "resources"},
	"plan/planfile":    {"plan", "resources", "internal/host"},
	"plan/snapshot":    {"plan", "resources"},
	"plan/plantest":    {"plan", "resources"},
	"state":            {"resources", "resources/schema"},
	"state/*":          {"state", "resources", "resources/schema", "internal/host"},
	// these two know the implementations of the contract
	"state/location": {"state/bolt", "state/zookeeper", "resources", "resources/schema", "internal/hints", "internal/syntax"},
	"state/migrate":  {"state", "state/location", "state/bolt", "state/zookeeper", "resources", "plan", "internal/hints"},
	"drivers":        {"resources", "resources/schema"},
	"drivers/*":      {"drivers", kit, "resources", "resources/schema", "internal/*"},
	// the common parts of drivers of clouds
	kit: {"drivers", "resources", "resources/schema"},
	// an OpenStack for tests
	"drivers/openstack/openstacktest/emulator": {"internal/*", "test/sshserver"},
	// stages foreign attachments for the suite of all drivers
	"drivers/openstack/openstacktest": {"drivers", "drivers/drivertest", "internal/testutil", "resources"},

	"builders":             {"resources", "resources/schema"},
	"builders/*":           {"builders", "resources", "resources/schema", "internal/*"},
	"reconcile":            {"resources", "resources/schema", "plan", "plan/snapshot", "state", "drivers", "builders", "internal/*"},
	"watch":                {"resources", "plan", "state", "state/audit", "reconcile"},
	"inspect":              {"resources", "resources/schema", "plan", "state", "inspect/wire"},
	"inspect/wire":         {"resources", "state"}, // what the API and its clients say to each other; clients need nothing else of the daemon
	"watch/*":              {"watch", "inspect", "resources", "plan", "state", "reconcile", "internal/*"},
	"watch/httpapi":        {"watch", "inspect", "inspect/wire", "resources", "plan", "plan/render", "state", "state/audit", "reconcile", "internal/*"},
	"watch/httpapi/client": {"inspect/wire", "resources", "state"},
	"internal/*":           {"internal/*", "resources", "resources/schema"},
	// shows a saved plan in code reviews
	"internal/review": {"internal/*", "plan", "plan/planfile", "plan/render", "resources"},
	// the command line without its commands: they know nothing else of npctl
	"internal/terminal": {},
	"internal/complete": {"internal/terminal"},
	"internal/text":     {},
	"internal/waits":    {},
	"cmd/*":             {"*"},
	"examples":          {}, // the texts that npctl init writes
	"test/*":            {"*"},
}

// kit is the one package that drivers share beside the contract.
const kit = "drivers/cloudkit"

// shared is what every package may import, without knowledge of npctl: words and numbers in text, and pauses.
var shared = []string{"internal/text", "internal/waits"}

// pkg is one package as its files describe it.
type pkg struct {
	imports  map[string]token.Position
	inits    []token.Position
	document bool
}

func TestPackagesFollowTheArrows(t *testing.T) {
	packages := readTree(t)
	if len(packages) < 10 {
		t.Fatalf("only %d packages found below the module's root", len(packages))
	}
	for name, p := range packages {
		allowed, known := rule(name)
		if !known {
			t.Errorf("package %s has no rule: add it to arrows", name)
		}
		for imported, at := range p.imports {
			if !slices.Contains(shared, imported) && !slices.Contains(arrows[name], imported) && (sibling(name, imported) || !matchAny(allowed, imported)) {
				t.Errorf("%s: %s must not import %s", at, name, imported)
			}
			if bench(imported) && !bench(name) {
				t.Errorf("%s: %s is part of npctl and must not import %s, which is for tests", at, name, imported)
			}
		}
		for _, at := range p.inits {
			if name == "internal/startup" { // exists to act before other packages are initialized
				continue
			}
			t.Errorf("%s: init() hides what a program does at its start; call it instead", at)
		}
		if !p.document {
			t.Errorf("package %s has no package comment", name)
		}
	}
}

// bench reports whether a package is for tests only.
func bench(name string) bool {
	return slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool { return part == "testutil" || strings.HasSuffix(part, "test") })
}

// sibling reports whether both are implementations of the same contract; kit is none.
func sibling(a, b string) bool {
	parent := path.Dir(a)
	return a != b && path.Dir(b) == parent && slices.Contains([]string{"state", "drivers", "builders"}, parent) &&
		!strings.HasSuffix(b, "test") && b != kit
}

func rule(name string) ([]string, bool) {
	if allowed, ok := arrows[name]; ok {
		return allowed, true
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if allowed, ok := arrows[dir+"/*"]; ok {
			return allowed, true
		}
	}
	return nil, false
}

func matchAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		prefix, below := strings.CutSuffix(p, "*")
		return p == name || below && strings.HasPrefix(name, prefix)
	})
}

// readTree parses every Go file of the module that is not a test.
func readTree(t *testing.T) map[string]*pkg {
	t.Helper()
	root := filepath.Join("..", "..")
	packages := map[string]*pkg{}
	files := token.NewFileSet()
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".") && entry.Name() != "..") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		relative, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		name := filepath.ToSlash(relative)
		if packages[name] == nil {
			packages[name] = &pkg{imports: map[string]token.Position{}}
		}
		return packages[name].read(files, file)
	})
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

func (p *pkg) read(files *token.FileSet, file string) error {
	parsed, err := parser.ParseFile(files, file, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	p.document = p.document || parsed.Doc != nil && strings.TrimSpace(parsed.Doc.Text()) != ""
	for _, spec := range parsed.Imports {
		if ours, ok := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module+"/"); ok {
			p.imports[ours] = files.Position(spec.Pos())
		}
	}
	for _, decl := range parsed.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			p.inits = append(p.inits, files.Position(f.Pos()))
		}
	}
	return nil
}
