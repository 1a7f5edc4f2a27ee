package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/npctl/npctl/internal/syntax"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// Options holds the location of the configuration and the sources of values outside its files.
type Options struct {
	Path      string                      // a directory or one file; "" is "."
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
	// Compare keeps the values of all blocks, for Differences.
	Compare bool
	// OtherVars permits Vars of variables that the configuration does not have.
	OtherVars bool
	// PathConfig is the value of path.config; "" is the directory of Path. Functions read the files below PathConfig from the
	// directory of Path, so that a copy of a configuration has the values of the original.
	PathConfig string
	// Boundary is an absolute directory for a configuration that may come from anyone: Load reads no files outside of it, except those of
	// options, and the env function finds no variables. "" permits everything.
	Boundary string
}

// environment returns the environment of the env function.
func (o Options) environment() func(string) (string, bool) {
	if o.Boundary != "" {
		return nil
	}
	return o.LookupEnv
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
	// Checks are the results of all assert blocks about the configuration, and Rules are those about plans.
	Checks []CheckResult
	Rules  []PlanRule

	evaluated []evaluated // with Options.Compare
}

// loader runs the steps of one Load. Each step is a type of its own; they share the report.
type loader struct {
	*report
	opts        Options
	specs       *specs
	sources     *sourceFiles
	expansion   *expansion
	functions   *hcl.EvalContext // the scope of all modules
	dir         configDir
	directories map[string]*directory // of modules, by path
	modules     []*module             // all module instances; the configuration itself is the first
	variables   *variableReader       // of the configuration itself
	checks      []CheckResult
	rules       []PlanRule
	overrides   *overrides
	digests     *blockDigests
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
	l.overrides.explain()
	diags = sortDiags(l.diags)
	if diags.HasErrors() {
		return l.failed(), diags
	}
	return &Result{Desired: desired, Files: l.sources.shownFiles(), Variables: l.variables.shown, Scope: l.modules[0].whole(), Unset: l.variables.unset,
		Outputs: l.modules[0].outputs, Checks: l.checks, Rules: l.rules, evaluated: l.digests.evaluated}, diags
}

const internalError = "Internal error"

func newLoader(opts Options) *loader {
	r, m, specs := newReport(), newMeter(opts.Stopped), newSpecs(opts)
	sources := newSourceFiles(r, m, specs.shape())
	sources.inputs = opts.Inputs
	if opts.Boundary != "" {
		sources.boundary = newBoundary(opts.Boundary)
	}
	return &loader{
		report: r, overrides: &overrides{report: r}, digests: &blockDigests{keep: opts.Compare}, opts: opts, specs: specs, sources: sources, directories: map[string]*directory{},
		expansion: &expansion{budget: maxExpansion, edges: maxEdges},
		variables: &variableReader{
			arguments: opts.Vars, files: opts.VarFiles, values: opts.Values, lookupEnv: opts.LookupEnv, checkOnly: opts.CheckOnly, others: opts.OtherVars,
			shown: map[string]VariableValue{},
		},
	}
}

func (l *loader) failed() *Result {
	return &Result{Files: l.sources.shownFiles(), Variables: l.variables.shown}
}

// load runs the steps that the package comment lists.
func (l *loader) load() resources.Desired {
	dir, ok := l.readDirectory(l.opts.Path, nil)
	if !ok {
		return resources.Desired{}
	}
	l.dir = configDir(dir.abs)
	l.functions = &hcl.EvalContext{Functions: functions(fileReader{l.dir, configDir(l.opts.PathConfig), l.sources.boundary, l.opts.Inputs}, l.opts.environment(), l.sources.meter)}
	l.evaluate(l.newModule(l.report, dir), l.variables)
	w, settings := l.readBlocks()
	l.readChecks()
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
	d.Blocks = l.digests.blocks
	sortBy(d.Blocks, func(b resources.Block) string { return b.Address })
	d.Hashed = digestOf(d)
	d.Digests = d.Hashed.Hashes("")
	return d
}

// readBlocks converts all blocks to resources.
func (l *loader) readBlocks() (*parsedConfig, resources.Settings) {
	root := l.modules[0]
	blocks := root.blocks(l.specs, l.digests)
	settings := &settingsReader{blockReader: blocks, dir: l.dir, version: l.opts.Version, states: l.opts.States}
	moves := withMoves(blocks.readMoves(root.dir.top["moved"], root.scope), l.opts.Moves)
	w := &parsedConfig{labels: map[string]*parsedLabel{}, moves: moves, imports: blocks.readImports(root.dir.top["import"], root.scope, root.expand),
		removed: blocks.readRemoved(root.dir.top["removed"], root.scope)}
	read := settings.settings(root.dir.top["npctl"], root.scope)
	drafts, names, formats := map[string]*draft{}, map[string]*parsedProvider{}, allFormats(l.opts.Drivers)
	for _, m := range l.modules {
		blocks := m.blocks(l.specs, l.digests)
		blocks.readLabels(m.graph.vertices["label"], m.scope, w.labels)
		(&imageReader{blockReader: blocks, builders: l.opts.Builders, formats: formats}).drafts(m.graph.vertices, m.scope, drafts)
		providers := &providerReader{blockReader: blocks, expand: m.expand, dir: l.dir, moves: movesOf(moves)}
		w.providers = append(w.providers, providers.providers(m.graph.vertices["provider"], m.scope, names)...)
	}
	w.images = imagesOf(drafts)
	return w, read
}

// readChecks evaluates the checks of all modules, which have the outputs of their module in scope.
func (l *loader) readChecks() {
	for _, m := range l.modules {
		if !m.expand.open { // otherwise the instance may not exist
			results, rules := (&outputReader{m.blocks(l.specs, nil)}).readChecks(m.dir.top["check"], m.whole())
			l.checks, l.rules = append(l.checks, results...), append(l.rules, rules...)
		}
	}
}

// readDirectory reads the files of the configuration or of a module. at is the place that names the directory, nil for
// the configuration.
func (l *loader) readDirectory(path string, at *hcl.Range) (*directory, bool) {
	l.opts.Inputs.recordFiles(path)
	found, err := syntax.Find(path)
	if err != nil {
		l.problem(at, "Cannot read configuration", err.Error()+".")
		return nil, false
	}
	abs, err := filepath.Abs(found.Dir)
	if err != nil {
		l.problem(at, "Cannot read configuration", err.Error()+".")
		return nil, false
	}
	switch n := len(found.Config) + len(found.Overrides); {
	case len(found.Config) == 0:
		l.problem(at, "No configuration", fmt.Sprintf("The directory %s has no file that ends with .hcl or .hcl.json (files that end with "+
			"%s hold only values of variables, override files only changes).", found.Dir, syntax.VarsSuffix))
		return nil, false
	case n > maxFiles:
		l.problem(at, "Configuration too large", fmt.Sprintf("The directory %s has %d files that end with .hcl; at most %d are read.", found.Dir, n, maxFiles))
		return nil, false
	}
	top := l.readAll(found)
	return &directory{path: found.Dir, abs: abs, auto: found.AutoVars, top: top, blocks: countBlocks(slices.Concat(slices.Collect(maps.Values(top))...))}, true
}

// readAll reads and parses all files, sorts their blocks by type, and merges the override files.
func (l *loader) readAll(found syntax.Files) map[string][]*hclsyntax.Block {
	top := map[string][]*hclsyntax.Block{}
	for _, path := range found.Config {
		l.readBlocksOf(path, top)
	}
	l.overrides.top = top
	for _, path := range found.Overrides {
		changes := map[string][]*hclsyntax.Block{}
		l.readBlocksOf(path, changes)
		l.overrides.merge(changes)
	}
	return top
}

// readBlocksOf reads one file.
func (l *loader) readBlocksOf(path string, top map[string][]*hclsyntax.Block) {
	src, ok := l.sources.readFile(path, regularFile)
	if !ok {
		l.partial = true
		return
	}
	if body := l.sources.parse(path, src); body != nil {
		l.sortBlocks(top, body)
	}
}

// topLevel maps the types of top-level blocks to the meanings of their labels.
var topLevel = map[string][]string{
	"npctl": nil, "variable": {"name"}, "locals": nil, "label": {"name"}, "diskimage": {"name"}, "zuul_image": {"name"},
	"provider": {"driver", "name"}, "import": nil, "moved": nil, "removed": nil, "output": {"name"}, "check": {"name"}, "module": {"name"},
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
