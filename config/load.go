package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// Options holds the location of the configuration and the sources of values outside its files.
type Options struct {
	Path      string                      // a directory (all its *.hcl except *.vars.hcl) or one file; "" is "."
	Vars      []string                    // "name=value" from -var, in order
	VarFiles  []string                    // -var-file, in order: HCL with `name = value`, or .json
	LookupEnv func(string) (string, bool) // NPCTL_VAR_x and the env function; nil means an empty environment
	Drivers   map[string]schema.Driver    // by kind
	Builders  map[string]schema.Block     // builder blocks by kind
	States    map[string]schema.Block     // state blocks by kind
	Stopped   <-chan struct{}             // closing it ends the evaluation; may be nil
	Version   string                      // the version of npctl, for required_version; "" passes every check
	// CheckOnly permits variables without a value. They are unknown, expressions that depend on them are checked as
	// far as possible, and Desired is empty.
	CheckOnly bool
}

// Result is the result of Load.
type Result struct {
	// Desired is the zero value after an error.
	Desired resources.Desired
	// Files are the sources by the file names in diagnostics, with the text of sensitive attributes masked.
	Files map[string]*hcl.File
	// Variables are the values of all variables.
	Variables map[string]VariableValue
	// Unset lists the variables without a value, in order. It is empty without CheckOnly.
	Unset []string
}

// loader is the state of one Load. Its methods append errors to diags and continue with unknown values, so that one
// run reports every error, and each only once.
type loader struct {
	opts      Options
	found     sources
	dir       string // absolute
	specs     *specs
	files     map[string]*hcl.File
	hidden    []hcl.Range // masked in the files of the Result
	diags     hcl.Diagnostics
	shown     map[string]VariableValue
	unset     []string
	blocks    []resources.Block   // evaluated blocks, in no order
	declared  map[string][]string // names by root: var, local, diskimage, …
	meter     *meter
	bytesLeft int64
	signsLeft int
	budget    int // blocks that for_each and dynamic may still generate
	edges     int // references that may still be followed
	cycles    int // number of reported cycles
	unnamed   int // number of placeholders
	// partial: a file could not be parsed, so objects that seem to be missing may be in it.
	partial bool
	// incomplete: some blocks of that kind could not be named or read, or depend on unknown values.
	incomplete map[string]bool
}

// Load reads, evaluates and checks a configuration. After an error the Result still has Files; it is never nil.
func Load(opts Options) (result *Result, diags hcl.Diagnostics) {
	l := newLoader(opts)
	defer func() {
		if fault := recover(); fault != nil {
			l.problem(nil, internalError, fmt.Sprintf("Reading the configuration stopped with: %v. This is a bug in npctl; "+
				"please report it with the configuration and this trace.\n\n%s", fault, debug.Stack()))
			result, diags = l.failed(), sortDiags(l.diags)
		}
	}()
	desired := l.load()
	diags = sortDiags(l.diags)
	if diags.HasErrors() {
		return l.failed(), diags
	}
	return &Result{Desired: desired, Files: l.shownFiles(), Variables: l.shown, Unset: l.unset}, diags
}

const internalError = "Internal error"

func newLoader(opts Options) *loader {
	return &loader{
		opts: opts, files: map[string]*hcl.File{}, shown: map[string]VariableValue{}, declared: map[string][]string{},
		incomplete: map[string]bool{}, bytesLeft: maxTotalBytes, signsLeft: maxSigns, budget: maxExpansion, edges: maxEdges,
		specs: newSpecs(opts), meter: newMeter(opts.Stopped),
	}
}

func (l *loader) failed() *Result {
	return &Result{Files: l.shownFiles(), Variables: l.shown}
}

// load runs the steps that the package comment lists.
func (l *loader) load() resources.Desired {
	top, ok := l.readAll()
	if !ok {
		return resources.Desired{}
	}
	base := &hcl.EvalContext{Functions: l.functions(), Variables: map[string]cty.Value{
		"path": cty.ObjectVal(map[string]cty.Value{"config": cty.StringVal(l.dir)}),
	}}
	variables := l.variables(top["variable"], base)
	scope := base.NewChild()
	scope.Variables = map[string]cty.Value{"var": variables}
	g := l.vertices(top)
	full := l.evaluateGraph(g, scope)

	w := &parsedConfig{labels: map[string]*parsedLabel{}, images: map[string]*parsedImage{}}
	settings := l.settings(top["npctl"], full)
	l.labels(w, g["label"], full)
	l.images(w, g, full)
	l.providers(w, g["provider"], full)
	l.checkRules(w)
	l.checkGearman(w, settings.Gearman)
	if l.diags.HasErrors() {
		return resources.Desired{}
	}
	d := w.desired(settings)
	if len(d.Providers) == 0 && len(d.Images) == 0 {
		l.warning(nil, "Empty configuration", "The configuration has neither providers nor images. Applied to an existing state, it removes all objects, so "+
			"that plan and apply require -allow-destroy=all.")
	}
	if len(l.unset) > 0 {
		return resources.Desired{} // it would be incomplete
	}
	d.Blocks = l.blocks
	sortBy(d.Blocks, func(b resources.Block) string { return b.Address })
	d.Hashed = digestOf(d)
	d.Digests = d.Hashed.Hashes("")
	return d
}

// readAll reads and parses all files and sorts their blocks by type.
func (l *loader) readAll() (map[string][]*hclsyntax.Block, bool) {
	var err error
	if l.found, err = findFiles(l.opts.Path); err != nil {
		l.problem(nil, "Cannot read configuration", err.Error()+".")
		return nil, false
	}
	if l.dir, err = filepath.Abs(l.found.dir); err != nil {
		l.problem(nil, "Cannot read configuration", err.Error()+".")
		return nil, false
	}
	switch n := len(l.found.config); {
	case n == 0:
		l.problem(nil, "No configuration", fmt.Sprintf("The directory %s has no file that ends with .hcl (files that end with "+
			"%s hold only values of variables).", l.found.dir, varsSuffix))
		return nil, false
	case n > maxFiles:
		l.problem(nil, "Configuration too large", fmt.Sprintf("The directory %s has %d files that end with .hcl; at most %d are read.", l.found.dir, n, maxFiles))
		return nil, false
	}
	top := map[string][]*hclsyntax.Block{}
	for _, path := range l.found.config {
		src, ok := l.readFile(path)
		if !ok {
			l.partial = true
			continue
		}
		if body := l.parse(path, src); body != nil {
			l.sortBlocks(top, body)
		}
	}
	return top, true
}

// topLevel maps the types of top-level blocks to the meanings of their labels.
var topLevel = map[string][]string{
	"npctl": nil, "variable": {"name"}, "locals": nil, "label": {"name"}, "diskimage": {"name"}, "zuul_image": {"name"},
	"provider": {"driver", "name"},
}

func (l *loader) sortBlocks(top map[string][]*hclsyntax.Block, body *hclsyntax.Body) {
	known := slices.Sorted(maps.Keys(topLevel))
	for name, attr := range body.Attributes {
		hint := didYouMean(name, known)
		l.problem(attr.NameRange.Ptr(), "Unsupported attribute", fmt.Sprintf("An attribute is valid only inside a block. "+
			"Define values for use elsewhere in a locals block.%s", hint))
	}
	for _, block := range body.Blocks {
		meaning, ok := topLevel[block.Type]
		if !ok {
			l.unknownTop(block, known)
			continue
		}
		if l.checkLabels(block, meaning...) {
			top[block.Type] = append(top[block.Type], block)
		} else {
			l.incomplete[block.Type] = true
		}
	}
}

func (l *loader) unknownTop(block *hclsyntax.Block, known []string) {
	hint := oneOf("blocks", block.Type, known)
	switch {
	case block.Type == dynamicBlock:
		hint = " To repeat a top-level block, set the attribute for_each in it."
	case l.specs.insideOf[block.Type] != "":
		hint = fmt.Sprintf(" It belongs inside %s.", l.specs.insideOf[block.Type])
	}
	l.problem(block.TypeRange.Ptr(), "Unsupported block", fmt.Sprintf("There is no block of type %q.%s", block.Type, hint))
}

// vertices returns the graph of locals and top-level blocks that refer to each other.
func (l *loader) vertices(top map[string][]*hclsyntax.Block) graph {
	g := newGraph()
	for _, block := range top["locals"] {
		l.localVertices(g, block)
	}
	for _, kind := range []string{"diskimage", "zuul_image", "label", "provider"} {
		for _, block := range top[kind] {
			l.blockVertex(g, kind, block)
		}
	}
	return g
}

func (l *loader) localVertices(g graph, block *hclsyntax.Block) {
	for _, inner := range block.Body.Blocks {
		l.problem(inner.DefRange().Ptr(), "Unsupported block", "A locals block has attributes only.")
	}
	for name, attr := range block.Body.Attributes {
		if other, twice := g["local"][name]; twice {
			first, second := other.at, attr.NameRange
			if compareRanges(first, second) > 0 {
				first, second = second, first
			}
			l.problem(second.Ptr(), "Duplicate local value", fmt.Sprintf("There is a local value %q already, at %s.", name, rangeText(first)))
			continue
		}
		g.add(&vertex{root: "local", name: name, at: attr.NameRange, exprs: []hclsyntax.Expression{attr.Expr}})
	}
}

func (l *loader) blockVertex(g graph, kind string, block *hclsyntax.Block) {
	label := len(block.Labels) - 1
	name := block.Labels[label]
	if other, twice := g[kind][name]; twice {
		l.duplicate(block, kind, name, other.at)
		return
	}
	v := &vertex{root: kind, name: name, at: block.DefRange(), block: block, label: label}
	for _, meta := range []string{metaForEach, metaName} {
		if attr, ok := block.Body.Attributes[meta]; ok {
			v.exprs = append(v.exprs, attr.Expr)
		}
	}
	g.add(v)
}

func (l *loader) duplicate(block *hclsyntax.Block, kind, name string, other hcl.Range) {
	l.problem(block.DefRange().Ptr(), "Duplicate block", fmt.Sprintf("There is %s %q already, at %s.", article(kind), name, rangeText(other)))
}

func compareRanges(a, b hcl.Range) int {
	return compareDiags(&hcl.Diagnostic{Subject: &a}, &hcl.Diagnostic{Subject: &b})
}

// instancesOf returns the instances of all blocks of a kind, sorted by block name.
func instancesOf(vertices map[string]*vertex) []instance {
	var all []instance
	for _, name := range slices.Sorted(maps.Keys(vertices)) {
		if v := vertices[name]; v.good {
			all = append(all, v.found...)
		}
	}
	return all
}

func sourceOf(r hcl.Range) resources.Source {
	return resources.Source{File: r.Filename, Line: r.Start.Line}
}
