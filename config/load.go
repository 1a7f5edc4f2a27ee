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
	Values    hcl.Attributes              // values of variables with the highest precedence, of a run of npctl test
	LookupEnv func(string) (string, bool) // NPCTL_VAR_x and the env function; nil means an empty environment
	Drivers   map[string]schema.Driver    // by kind
	Builders  map[string]schema.Block     // builder blocks by kind
	States    map[string]schema.Block     // state blocks by kind
	Stopped   <-chan struct{}             // closing it ends the evaluation; may be nil
	Inputs    *Inputs                     // records the files that are read; may be nil
	Version   string                      // the version of npctl, for required_version; "" passes every check
	Moves     resources.Moves             // moves beside those of moved blocks, from npctl state mv
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
	// Scope is the scope of the expressions in the configuration.
	Scope Scope
	// Unset lists the variables without a value, in order. It is empty without CheckOnly.
	Unset []string
	// Outputs are the output blocks of the root directory, by name. It is nil after an error.
	Outputs map[string]Output
	// Checks are the results of all assert blocks.
	Checks []CheckResult
}

// loader runs the steps of one Load. Each step is a type of its own; they share the report.
type loader struct {
	*report
	opts      Options
	specs     *specs
	sources   *sourceFiles
	expand    *expander
	bodies    *decoder
	variables *variableReader
	scope     Scope
	outputs   map[string]Output
	checks    []CheckResult
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
	return &Result{Desired: desired, Files: l.sources.shownFiles(), Variables: l.variables.shown, Scope: l.scope, Unset: l.variables.unset,
		Outputs: l.outputs, Checks: l.checks}, diags
}

const internalError = "Internal error"

func newLoader(opts Options) *loader {
	r, m, specs := newReport(), newMeter(opts.Stopped), newSpecs(opts)
	sources := newSourceFiles(r, m)
	sources.inputs = opts.Inputs
	eval := &evaluator{report: r, meter: m, declared: map[string][]string{}}
	expand := &expander{report: r, eval: eval, budget: maxExpansion}
	bodies := &decoder{report: r, eval: eval, expand: expand, sources: sources}
	return &loader{
		report: r, opts: opts, specs: specs, sources: sources, expand: expand, bodies: bodies,
		variables: &variableReader{
			blockReader: &blockReader{report: r, specs: specs, bodies: bodies}, eval: eval, sources: sources,
			arguments: opts.Vars, files: opts.VarFiles, values: opts.Values, lookupEnv: opts.LookupEnv, checkOnly: opts.CheckOnly,
			shown: map[string]VariableValue{},
		},
	}
}

func (l *loader) failed() *Result {
	return &Result{Files: l.sources.shownFiles(), Variables: l.variables.shown}
}

// load runs the steps that the package comment lists.
func (l *loader) load() resources.Desired {
	found, dir, ok := l.findAll()
	if !ok {
		return resources.Desired{}
	}
	top := l.readAll(found.config)
	full, g := l.evaluateTop(top, found.auto, dir)
	w, settings, digests := l.readBlocks(top, g, full, dir)
	l.readOutputs(top, full)
	(&ruleChecker{report: l.report, config: w}).checkAll(settings.Gearman)
	if l.diags.HasErrors() {
		return resources.Desired{}
	}
	d := w.desired(settings)
	if len(d.Providers) == 0 && len(d.Images) == 0 {
		l.warning(nil, "Empty configuration", "The configuration has neither providers nor images. Applied to an existing state, it removes all objects, so "+
			"that plan and apply require -allow-destroy=all.")
	}
	if len(l.variables.unset) > 0 {
		return resources.Desired{} // it would be incomplete
	}
	d.Blocks = digests
	sortBy(d.Blocks, func(b resources.Block) string { return b.Address })
	d.Hashed = digestOf(d)
	d.Digests = d.Hashed.Hashes("")
	return d
}

// evaluateTop evaluates variables, locals and the for_each of top-level blocks. It returns the scope of all bodies.
func (l *loader) evaluateTop(top map[string][]*hclsyntax.Block, auto []string, dir configDir) (*hcl.EvalContext, *graph) {
	base := &hcl.EvalContext{Functions: functions(fileReader{dir, l.opts.Inputs}, l.opts.LookupEnv, l.sources.meter), Variables: map[string]cty.Value{
		"path": cty.ObjectVal(map[string]cty.Value{"config": cty.StringVal(string(dir))}),
	}}
	variables := l.variables.variables(top["variable"], auto, base)
	scope := base.NewChild()
	scope.Variables = map[string]cty.Value{"var": variables}
	g := newGraph(top, l.report, l.bodies.eval, l.expand)
	return g.evaluate(scope), g
}

// readOutputs evaluates outputs and checks. Checks, and the scope of the Result, have the root output.
func (l *loader) readOutputs(top map[string][]*hclsyntax.Block, full *hcl.EvalContext) {
	reader := &outputReader{&blockReader{report: l.report, specs: l.specs, bodies: l.bodies}}
	outputs, values := reader.readOutputs(top["output"], full)
	scope := full.NewChild()
	scope.Variables = map[string]cty.Value{"output": values}
	l.outputs, l.checks = outputs, reader.readChecks(top["check"], scope)
	l.scope = Scope{scope, l.bodies.eval.declared}
}

// readBlocks converts all blocks to resources.
func (l *loader) readBlocks(top map[string][]*hclsyntax.Block, g *graph, full *hcl.EvalContext, dir configDir) (*parsedConfig, resources.Settings, []resources.Block) {
	blocks := &blockReader{report: l.report, specs: l.specs, bodies: l.bodies, digests: &blockDigests{}}
	settings := &settingsReader{blockReader: blocks, dir: dir, version: l.opts.Version, states: l.opts.States}
	images := &imageReader{blockReader: blocks, builders: l.opts.Builders, formats: allFormats(l.opts.Drivers)}
	moves := withMoves(blocks.readMoves(top["moved"], full), l.opts.Moves)
	providers := &providerReader{blockReader: blocks, expand: l.expand, dir: dir, moves: movesOf(moves)}
	read := settings.settings(top["npctl"], full)
	w := &parsedConfig{
		labels:    blocks.readLabels(g.vertices["label"], full),
		images:    images.images(g.vertices, full),
		providers: providers.providers(g.vertices["provider"], full),
		imports:   blocks.readImports(top["import"], full, l.expand),
		moves:     moves,
	}
	return w, read, blocks.digests.blocks
}

// findAll lists the files of the configuration and returns its absolute directory.
func (l *loader) findAll() (foundFiles, configDir, bool) {
	l.opts.Inputs.recordFiles(l.opts.Path)
	found, err := findFiles(l.opts.Path)
	if err != nil {
		l.problem(nil, "Cannot read configuration", err.Error()+".")
		return found, "", false
	}
	dir, err := filepath.Abs(found.dir)
	if err != nil {
		l.problem(nil, "Cannot read configuration", err.Error()+".")
		return found, "", false
	}
	switch n := len(found.config); {
	case n == 0:
		l.problem(nil, "No configuration", fmt.Sprintf("The directory %s has no file that ends with .hcl (files that end with "+
			"%s hold only values of variables).", found.dir, varsSuffix))
		return found, "", false
	case n > maxFiles:
		l.problem(nil, "Configuration too large", fmt.Sprintf("The directory %s has %d files that end with .hcl; at most %d are read.", found.dir, n, maxFiles))
		return found, "", false
	}
	return found, configDir(dir), true
}

// readAll reads and parses all files and sorts their blocks by type.
func (l *loader) readAll(files []string) map[string][]*hclsyntax.Block {
	top := map[string][]*hclsyntax.Block{}
	for _, path := range files {
		src, ok := l.sources.readFile(path, regularFile)
		if !ok {
			l.partial = true
			continue
		}
		if body := l.sources.parse(path, src); body != nil {
			l.sortBlocks(top, body)
		}
	}
	return top
}

// topLevel maps the types of top-level blocks to the meanings of their labels.
var topLevel = map[string][]string{
	"npctl": nil, "variable": {"name"}, "locals": nil, "label": {"name"}, "diskimage": {"name"}, "zuul_image": {"name"},
	"provider": {"driver", "name"}, "import": nil, "moved": nil, "output": {"name"}, "check": {"name"},
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
