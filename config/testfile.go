package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/internal/syntax"
)

// TestFile is a file with tests.
type TestFile struct {
	Path  string
	Runs  []TestRun
	Files map[string]*hcl.File // the source, for diagnostics
	meter *meter
}

// TestRun is a run block: one plan, or one apply, and the conditions on its result.
type TestRun struct {
	Name     string
	Apply    bool // command = apply
	Destroy  bool
	Targets  []string
	Replace  []string
	Source   hcl.Range
	Expected []string // addresses of the rules that must fail, such as var.name
	// Values are the values of variables in this run: those of the file, overridden by those of the run.
	Values hcl.Attributes
	rules  []rule
}

// FailedRule is the Extra of the diagnostic of a rule with a false condition.
type FailedRule struct {
	Address string // such as var.name
}

// Words of test files, for suggestions.
var (
	runAttributes    = []string{"command", "destroy", "expect_failures", "replace", "target"}
	assertAttributes = []string{"condition", "error_message"}
)

// IsTest reports whether the name of a file is that of a file with tests.
func IsTest(name string) bool {
	return syntax.IsSource(name) && strings.HasSuffix(strings.TrimSuffix(name, ".json"), syntax.TestSuffix)
}

// FindTests lists the files with tests in a directory and in its subdirectory tests, in the order of their names.
func FindTests(dir string) ([]string, error) {
	var found []string
	for _, in := range []string{dir, filepath.Join(dir, "tests")} {
		entries, err := os.ReadDir(in)
		if err != nil && (in == dir || !os.IsNotExist(err)) {
			return nil, err
		}
		for _, e := range entries {
			if !e.IsDir() && IsTest(e.Name()) {
				found = append(found, filepath.Join(in, e.Name()))
			}
		}
	}
	return found, nil
}

// ReadTests reads a file with tests. After an error the TestFile still has Files; it is never nil.
func ReadTests(path string, stopped <-chan struct{}) (*TestFile, hcl.Diagnostics) {
	r := newReport()
	m := newMeter(stopped)
	p := &testParser{report: r, sources: newSourceFiles(r, m, syntax.Shape{}), file: &TestFile{Path: path, meter: m}}
	p.read(path)
	p.file.Files = p.sources.files
	return p.file, sortDiags(r.diags)
}

// testParser reads one file with tests.
type testParser struct {
	*report
	sources *sourceFiles
	file    *TestFile
}

func (p *testParser) read(path string) {
	src, ok := p.sources.readFile(path, regularFile)
	if !ok {
		return
	}
	if syntax.IsJSON(path) {
		p.problem(nil, "No JSON syntax", path+" has tests in JSON. Write tests in HCL's native syntax, in a file that ends with "+syntax.TestSuffix+".")
		return
	}
	body := p.sources.parse(path, src)
	if body == nil || p.diags.HasErrors() {
		return
	}
	for _, attr := range body.Attributes {
		p.problem(attr.NameRange.Ptr(), "Unsupported attribute", "An attribute is valid only inside a block. Values of variables belong into a variables block.")
	}
	var shared hcl.Attributes
	for _, block := range body.Blocks {
		if block.Type == "variables" && p.checkLabels(block) {
			if shared != nil {
				p.problem(block.DefRange().Ptr(), "Duplicate block", "The file has more than one variables block.")
			}
			shared = p.values(block)
		}
	}
	names := map[string]hcl.Range{}
	for _, block := range body.Blocks {
		switch block.Type {
		case "variables":
		case "run":
			p.run(block, shared, names)
		default:
			p.problem(block.TypeRange.Ptr(), "Unsupported block", fmt.Sprintf("A file with tests has no block of type %q.%s", block.Type, oneOf("blocks", block.Type, []string{"run", "variables"})))
		}
	}
	if len(p.file.Runs) == 0 && !p.diags.HasErrors() {
		p.problem(nil, "No tests", path+" has no run block.")
	}
}

// values returns the attributes of a variables block.
func (p *testParser) values(block *hclsyntax.Block) hcl.Attributes {
	attrs, diags := block.Body.JustAttributes()
	p.add(diags...)
	for _, attr := range attrs {
		for _, traversal := range attr.Expr.Variables() {
			p.problem(traversal.SourceRange().Ptr(), "Reference in a value", "The value of a variable must not refer to other values.")
		}
	}
	if attrs == nil {
		attrs = hcl.Attributes{}
	}
	return attrs
}

func (p *testParser) run(block *hclsyntax.Block, shared hcl.Attributes, names map[string]hcl.Range) {
	if !p.checkLabels(block, "name") {
		return
	}
	run := TestRun{Name: block.Labels[0], Apply: true, Source: block.DefRange(), Values: hcl.Attributes{}}
	if other, twice := names[run.Name]; twice {
		p.duplicate(block, "run", run.Name, other)
		return
	}
	names[run.Name] = block.DefRange()
	maps.Copy(run.Values, shared)
	for _, name := range sortedKeys(block.Body.Attributes) {
		p.runAttribute(&run, block.Body.Attributes[name])
	}
	known := []string{"assert", "variables"}
	seen := false
	for _, inner := range block.Body.Blocks {
		switch {
		case inner.Type == "variables" && p.checkLabels(inner):
			if seen {
				p.problem(inner.DefRange().Ptr(), "Duplicate block", "The run has more than one variables block.")
			}
			seen = true
			maps.Copy(run.Values, p.values(inner))
		case inner.Type == "assert" && p.checkLabels(inner):
			p.rule(&run, inner)
		case !slices.Contains(known, inner.Type):
			p.problem(inner.TypeRange.Ptr(), "Unsupported block", fmt.Sprintf("A run block has no block of type %q.%s", inner.Type, oneOf("blocks", inner.Type, known)))
		}
	}
	p.file.Runs = append(p.file.Runs, run)
}

func (p *testParser) runAttribute(run *TestRun, attr *hclsyntax.Attribute) {
	switch attr.Name {
	case "command":
		word := hcl.ExprAsKeyword(attr.Expr)
		if word != "plan" && word != "apply" {
			p.problem(attr.Expr.Range().Ptr(), "Invalid value", "The command of a run is plan or apply, without quotes.")
		}
		run.Apply = word == "apply"
	case "expect_failures":
		run.Expected = p.references(attr)
	case "destroy":
		p.constant(attr, cty.Bool, func(v cty.Value) { run.Destroy = v.True() })
	case "target":
		p.constant(attr, texts, func(v cty.Value) { run.Targets = textsOf(v) })
	case "replace":
		p.constant(attr, texts, func(v cty.Value) { run.Replace = textsOf(v) })
	default:
		p.problem(attr.NameRange.Ptr(), "Unsupported attribute", fmt.Sprintf("A run block has no attribute named %q.%s", attr.Name, oneOf("attributes", attr.Name, runAttributes)))
	}
}

// constant evaluates an attribute without references.
func (p *testParser) constant(attr *hclsyntax.Attribute, want cty.Type, use func(cty.Value)) {
	value, ok := (&evaluator{report: p.report, meter: p.file.meter}).evaluate(attr.Expr, &hcl.EvalContext{})
	if !ok {
		return
	}
	converted, err := convertTo(value, want)
	if err != nil || converted.IsNull() || !converted.IsWhollyKnown() {
		p.problem(attr.Expr.Range().Ptr(), "Wrong type", fmt.Sprintf("The attribute %q has the type %s.", attr.Name, want.FriendlyName()))
		return
	}
	use(converted)
}

func textsOf(list cty.Value) []string {
	var all []string
	for _, v := range list.AsValueSlice() {
		all = append(all, v.AsString())
	}
	return all
}

// references returns the addresses in a list of references such as [var.size].
func (p *testParser) references(attr *hclsyntax.Attribute) []string {
	exprs, diags := hcl.ExprList(attr.Expr)
	if diags.HasErrors() {
		p.problem(attr.Expr.Range().Ptr(), "Wrong type", "expect_failures is a list of references, such as [var.size].")
		return nil
	}
	var all []string
	for _, expr := range exprs {
		traversal, diags := hcl.AbsTraversalForExpr(expr)
		if diags.HasErrors() || len(traversal) != 2 {
			p.problem(expr.Range().Ptr(), "Invalid reference", "Write a reference to a rule that must fail, such as var.size.")
			continue
		}
		if name, ok := stepName(traversal[1]); ok {
			all = append(all, traversal.RootName()+"."+name)
		}
	}
	return all
}

func (p *testParser) rule(run *TestRun, block *hclsyntax.Block) {
	for _, inner := range block.Body.Blocks {
		p.problem(inner.DefRange().Ptr(), "Unsupported block", "An assert block has attributes only.")
	}
	for name, attr := range block.Body.Attributes {
		if !slices.Contains(assertAttributes, name) {
			p.problem(attr.NameRange.Ptr(), "Unsupported attribute", fmt.Sprintf("An assert block has no attribute named %q.%s", name, didYouMean(name, assertAttributes)))
		}
	}
	condition, message := block.Body.Attributes["condition"], block.Body.Attributes["error_message"]
	if condition == nil || message == nil {
		p.problem(block.DefRange().Ptr(), "Missing attribute", "An assert block needs condition and error_message.")
		return
	}
	run.rules = append(run.rules, rule{condition.Expr, message.Expr})
}

// Assert evaluates the conditions of a run in the scope of the configuration, with further roots of references. It
// returns an error for each condition that is not true.
func (f *TestFile) Assert(run TestRun, scope Scope, more map[string]cty.Value) hcl.Diagnostics {
	r := newReport()
	for _, one := range run.rules {
		at := one.condition.Range()
		if message := one.evaluate(r, f.meter, scope, more); message != "" {
			r.add(&hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Test assertion failed", Detail: message, Subject: &at,
				Expression: one.condition, EvalContext: scope.with(more)})
		}
	}
	return redact(r.diags)
}

func sortedKeys(attrs hclsyntax.Attributes) []string { return slices.Sorted(maps.Keys(attrs)) }
