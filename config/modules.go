package config

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources/schema"
)

// moduleBlock is the schema of a module block. Further attributes are inputs.
var moduleBlock = schema.Block{
	Doc: "A directory with blocks that several places of the configuration share; see [Modules](modules.md). All further attributes are inputs: values of the variables of the module.",
	Attributes: []schema.Attribute{
		{Name: metaSource, Type: cty.String, Required: true, Doc: "The directory, relative to that of the file, such as `\"./modules/cloud\"`. It contains no references."},
		{Name: metaForEach, Type: cty.DynamicPseudoType, Doc: "A map, an object or a set of strings: the module has one instance for each element. The other attributes may use `each`."},
	},
}

const metaSource = "source"

// moduleBlocks are the types of blocks in modules. The others have one place for the whole configuration.
var moduleBlocks = []string{"variable", "locals", "output", "check", "label", "diskimage", "zuul_image", "provider", "module"}

// directory holds the blocks of the configuration or of a module.
type directory struct {
	path   string                        // for messages
	abs    string                        // absolute path
	auto   []string                      // files with values of variables, which modules do not have
	top    map[string][]*hclsyntax.Block // by type
	blocks int                           // number at any depth
}

// module is one instance of a module: a directory that is evaluated with its own variables. The configuration itself
// is the first instance.
type module struct {
	*report
	dir    *directory
	parent *module // nil for the configuration itself
	eval   *evaluator
	expand *expander
	bodies *decoder
	// The results of evaluation.
	graph   *graph
	scope   *hcl.EvalContext // of all bodies
	outputs map[string]Output
	output  cty.Value // the object of all outputs, with marks
}

func (l *loader) newModule(r *report, dir *directory) *module {
	eval := &evaluator{report: r, meter: l.sources.meter, declared: map[string][]string{}, repeated: map[string]bool{}}
	expand := &expander{report: r, expansion: l.expansion, eval: eval}
	return &module{report: r, dir: dir, eval: eval, expand: expand, bodies: &decoder{report: r, eval: eval, expand: expand, sources: l.sources}}
}

// blocks returns a reader of the blocks of the instance.
func (m *module) blocks(s *specs, digests *blockDigests) *blockReader {
	return &blockReader{report: m.report, specs: s, bodies: m.bodies, digests: digests}
}

// whole returns the scope of bodies, extended by the outputs.
func (m *module) whole() Scope {
	ctx := m.scope.NewChild()
	ctx.Variables = map[string]cty.Value{"output": m.output}
	return Scope{ctx, m.eval.declared, m.eval.repeated}
}

// evaluate evaluates variables, locals, the for_each of top-level blocks, inner modules and outputs of an instance.
// values has the sources of the values of variables.
func (l *loader) evaluate(m *module, values *variableReader) {
	l.modules = append(l.modules, m)
	base := l.functions.NewChild()
	base.Variables = map[string]cty.Value{"path": cty.ObjectVal(map[string]cty.Value{
		"config": cty.StringVal(cmp.Or(l.opts.PathConfig, string(l.dir))), "module": cty.StringVal(l.relative(m.dir)),
	})}
	blocks := m.blocks(l.specs, nil)
	values.blockReader, values.eval, values.sources = blocks, m.eval, l.sources
	scope := base.NewChild()
	scope.Variables = map[string]cty.Value{"var": values.variables(m.dir.top["variable"], m.dir.auto, base)}
	m.graph = newGraph(m.dir.top, m.report, m.eval, m.expand)
	m.graph.call = func(v *vertex, ctx *hcl.EvalContext) (cty.Value, bool) { return l.call(m, v, ctx) }
	m.scope = m.graph.evaluate(scope)
	m.outputs, m.output = (&outputReader{blocks}).readOutputs(m.dir.top["output"], m.scope)
}

// relative returns the path of a directory for file functions and attributes, which start at the configuration.
func (l *loader) relative(dir *directory) string {
	path, err := filepath.Rel(string(l.dir), dir.abs)
	if err != nil { // on another volume
		path = dir.abs
	}
	return filepath.ToSlash(path)
}

// call evaluates a module block in the scope of its expressions. The value has the outputs, with for_each by key.
func (l *loader) call(caller *module, v *vertex, ctx *hcl.EvalContext) (cty.Value, bool) {
	dir, ok := l.source(caller, v.block)
	if !ok {
		return cty.DynamicVal, false
	}
	l.checkInputs(caller, v.block, dir)
	local := "module." + v.name
	forEach, repeated := v.block.Body.Attributes[metaForEach]
	if !repeated {
		return l.instance(caller, v.block, dir, local, ctx, caller.expand.open)
	}
	elements, ok := caller.expand.elements(forEach.Expr, ctx, keyedCollection)
	if !ok {
		return cty.DynamicVal, false
	}
	byKey := make(map[string]cty.Value, len(elements))
	for _, e := range elements {
		scope := instance{keyed: true, eachValue: e.object()}.context(ctx)
		if e.unknown {
			_, ok := l.instance(caller, v.block, dir, local+"[each.key]", scope, true)
			return cty.DynamicVal, ok
		}
		if byKey[e.key.AsString()], ok = l.instance(caller, v.block, dir, fmt.Sprintf("%s[%q]", local, e.key.AsString()), scope, caller.expand.open); !ok {
			return cty.DynamicVal, false
		}
	}
	return cty.ObjectVal(byKey), true
}

// instance evaluates one instance of a module and returns its outputs. If it is open, it may not exist.
func (l *loader) instance(caller *module, block *hclsyntax.Block, dir *directory, local string, ctx *hcl.EvalContext, open bool) (cty.Value, bool) {
	at := block.DefRange()
	if !caller.expand.spend(dir.blocks+1, &at, "module") {
		return cty.DynamicVal, false
	}
	m := l.newModule(&report{findings: l.findings, module: caller.address(local), calledAt: at}, dir)
	m.parent, m.expand.open = caller, open
	inputs := map[string]*externalValue{}
	for _, attr := range inputsOf(block) {
		if attr.Name != metaForEach {
			value, _ := caller.eval.evaluate(attr.Expr, ctx)
			inputs[attr.Name] = &externalValue{from: "the module block", value: value, at: attr.Expr.Range()}
		}
	}
	l.evaluate(m, &variableReader{inputs: inputs})
	return m.output, true
}

// inputsOf returns the attributes of a module block except its source, in the order of the file.
func inputsOf(block *hclsyntax.Block) []*hclsyntax.Attribute {
	var attrs []*hclsyntax.Attribute
	for name, attr := range block.Body.Attributes {
		if name != metaSource {
			attrs = append(attrs, attr)
		}
	}
	slices.SortFunc(attrs, func(a, b *hclsyntax.Attribute) int {
		return cmp.Compare(a.NameRange.Start.Byte, b.NameRange.Start.Byte)
	})
	return attrs
}

// checkInputs compares the inputs of a module block with the variables of the module.
func (l *loader) checkInputs(caller *module, block *hclsyntax.Block, dir *directory) {
	for _, inner := range block.Body.Blocks {
		caller.bodies.unknownBlock(l.specs.module, inner)
	}
	if l.partial {
		return // a file that could not be parsed may declare a variable
	}
	var names []string
	for _, v := range dir.top["variable"] {
		name := v.Labels[0]
		names = append(names, name)
		if _, given := block.Body.Attributes[name]; !given && v.Body.Attributes["default"] == nil {
			caller.problem(block.DefRange().Ptr(), "Missing input", fmt.Sprintf("The module %q needs the input %q, because its variable at %s has no default.",
				block.Labels[0], name, rangeText(v.DefRange())))
		}
	}
	for _, attr := range inputsOf(block) {
		if attr.Name != metaForEach && !slices.Contains(names, attr.Name) {
			caller.problem(attr.NameRange.Ptr(), "Unknown input", fmt.Sprintf("The module in %s has no variable %q.%s", dir.path, attr.Name, oneOf("inputs", attr.Name, names)))
		}
	}
}

// source returns the directory that a module block names.
func (l *loader) source(caller *module, block *hclsyntax.Block) (*directory, bool) {
	attr, ok := block.Body.Attributes[metaSource]
	if !ok {
		caller.problem(block.DefRange().Ptr(), "Missing attribute", "A module block needs the attribute \"source\": the directory, such as \"./modules/cloud\".")
		return nil, false
	}
	at := attr.Expr.Range()
	value, diags := attr.Expr.Value(nil)
	source, isText := plainString(value)
	if diags.HasErrors() || !isText {
		caller.problem(&at, "Invalid source", "The source of a module is a text without references and functions, because npctl reads the files of modules before it evaluates expressions.")
		return nil, false
	}
	if fault := sourceFault(source); fault != "" {
		caller.problem(&at, "Invalid source", fault)
		return nil, false
	}
	path := filepath.Join(caller.dir.path, source)
	if fault := caller.nestingFault(path); fault != "" {
		caller.problem(&at, "Invalid source", fault)
		return nil, false
	}
	dir, known := l.directories[path]
	if !known {
		dir = l.moduleDirectory(path, &at)
		l.directories[path] = dir
	}
	return dir, dir != nil
}

// sourceFault returns why a source is invalid, or "".
func sourceFault(source string) string {
	slashed := filepath.ToSlash(source)
	switch {
	case slashed == "." || slashed == "..", strings.HasPrefix(slashed, "./"), strings.HasPrefix(slashed, "../"):
		return ""
	case source == "":
		return "The source is empty. Write a directory, such as \"./modules/cloud\"."
	case filepath.IsAbs(source), strings.HasPrefix(source, "~"):
		return fmt.Sprintf("The source %q is an absolute path, which differs between computers. Write a path relative to the directory of this file, such as \"./modules/cloud\".", source)
	case strings.ContainsAny(source, ":@"), strings.Contains(strings.SplitN(slashed, "/", 2)[0], "."):
		return fmt.Sprintf("The source %q is not a local directory, and npctl downloads no modules. Add the module to the repository, for example as a git submodule, and write its directory, such as \"./modules/cloud\".", source)
	default:
		return fmt.Sprintf("The source of a module is a local directory and starts with ./ or ../, relative to the directory of this file. Write \"./%s\".", slashed)
	}
}

// nestingFault returns why a module must not call the module in a directory, or "".
func (m *module) nestingFault(path string) string {
	chain := []string{path}
	cycle := false
	for at := m; at != nil; at = at.parent {
		chain = append(chain, at.dir.path)
		if cycle = sameDirectory(at.dir.path, path); cycle {
			break
		}
	}
	slices.Reverse(chain)
	switch {
	case cycle:
		return "The module calls itself: " + strings.Join(chain, " -> ") + "."
	case len(chain) > maxModuleDepth+1:
		return fmt.Sprintf("Modules call each other more than %d levels deep: %s.", maxModuleDepth, strings.Join(chain, " -> "))
	default:
		return ""
	}
}

func sameDirectory(a, b string) bool {
	first, errA := os.Stat(a)
	second, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(first, second)
}

// moduleDirectory reads the files of a module, or reports an error and returns nil.
func (l *loader) moduleDirectory(path string, at *hcl.Range) *directory {
	if err := l.sources.boundary.check(path); err != nil {
		l.problem(at, "Module not found", err.Error()+".")
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case os.IsNotExist(err):
		l.opts.Inputs.recordFiles(path)
		l.problem(at, "Module not found", fmt.Sprintf("There is no directory %q.%s", path, didYouMean(filepath.Base(path), directoriesIn(filepath.Dir(path)))))
		return nil
	case err == nil && !info.IsDir():
		l.problem(at, "Invalid source", fmt.Sprintf("%q is a file, and the source of a module is a directory.", path))
		return nil
	}
	dir, ok := l.readDirectory(path, at)
	if !ok {
		return nil
	}
	for _, kind := range slices.Sorted(maps.Keys(dir.top)) {
		for _, block := range dir.top[kind] {
			switch {
			case !slices.Contains(moduleBlocks, kind):
				l.problem(block.DefRange().Ptr(), "Unsupported block", fmt.Sprintf("A module has no %s block. Move it to the directory of the configuration.", kind))
			case kind == "variable" && (block.Labels[0] == metaSource || block.Labels[0] == metaForEach):
				l.problem(block.LabelRanges[0].Ptr(), "Invalid name", fmt.Sprintf("A variable of a module cannot have the name %q, because this attribute of the module block is not an input.", block.Labels[0]))
			}
		}
	}
	return dir
}

func directoriesIn(path string) (names []string) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil // only a suggestion
	}
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names
}

func countBlocks(blocks []*hclsyntax.Block) int {
	n := len(blocks)
	for _, block := range blocks {
		n += countBlocks(block.Body.Blocks)
	}
	return n
}
