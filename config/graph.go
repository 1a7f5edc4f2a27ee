package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Locals and the for_each and name of top-level blocks may refer to each other in any order and in any file. They are
// the vertices of a graph; each is evaluated after the vertices to which it refers.

// vertex is a local value or a top-level block.
type vertex struct {
	root  string // "local", "diskimage", …
	name  string
	at    hcl.Range
	exprs []hclsyntax.Expression // expressions that determine its value
	block *hclsyntax.Block       // nil for a local; of a module, the module block
	label int                    // index of the block label that is its name
	state vertexState
	refs  []*vertex // vertices to which it refers; set by needs
	value cty.Value
	found []instance
	good  bool
}

type vertexState int

const (
	waiting vertexState = iota
	entered             // its references are being evaluated
	done
)

func (v *vertex) id() string { return v.root + "." + v.name }

// graph holds the vertices and evaluates them.
type graph struct {
	*report
	eval     *evaluator
	expand   *expander
	vertices map[string]map[string]*vertex // by root and name
	cycles   int                           // number of reported cycles
	// call returns the value of a module vertex in the scope of the expressions of its block.
	call func(v *vertex, ctx *hcl.EvalContext) (cty.Value, bool)
}

// newGraph returns the graph of the locals and blocks of one module, by block type.
func newGraph(top map[string][]*hclsyntax.Block, r *report, e *evaluator, x *expander) *graph {
	g := &graph{report: r, eval: e, expand: x, vertices: map[string]map[string]*vertex{}}
	for _, root := range []string{"local", "module", "diskimage", "zuul_image", "label", "provider"} {
		g.vertices[root] = map[string]*vertex{}
	}
	for _, block := range top["locals"] {
		g.addLocals(block)
	}
	for _, kind := range []string{"module", "diskimage", "zuul_image", "label", "provider"} {
		for _, block := range top[kind] {
			g.addBlock(kind, block)
		}
	}
	for root, vertices := range g.vertices {
		e.declared[root] = slices.Sorted(maps.Keys(vertices))
	}
	return g
}

func (g *graph) add(v *vertex) { g.vertices[v.root][v.name] = v }

func (g *graph) addLocals(block *hclsyntax.Block) {
	for _, inner := range block.Body.Blocks {
		g.problem(inner.DefRange().Ptr(), "Unsupported block", "A locals block has attributes only.")
	}
	for name, attr := range block.Body.Attributes {
		if other, twice := g.vertices["local"][name]; twice {
			first, second := other.at, attr.NameRange
			if compareRanges(first, second) > 0 {
				first, second = second, first
			}
			g.problem(second.Ptr(), "Duplicate local value", fmt.Sprintf("There is a local value %q already, at %s.", name, rangeText(first)))
			continue
		}
		g.add(&vertex{root: "local", name: name, at: attr.NameRange, exprs: []hclsyntax.Expression{attr.Expr}})
	}
}

func (g *graph) addBlock(kind string, block *hclsyntax.Block) {
	label := len(block.Labels) - 1
	name := block.Labels[label]
	if other, twice := g.vertices[kind][name]; twice {
		g.duplicate(block, kind, name, other.at)
		return
	}
	v := &vertex{root: kind, name: name, at: block.DefRange(), block: block, label: label}
	switch kind {
	case "module":
		if !hclsyntax.ValidIdentifier(name) {
			g.invalidIdentifier(block, "a module")
			g.partial = true
			return
		}
		for _, attr := range inputsOf(block) {
			v.exprs = append(v.exprs, attr.Expr)
		}
		g.eval.repeated[name] = block.Body.Attributes[metaForEach] != nil
	default:
		for _, meta := range []string{metaForEach, metaName} {
			if attr, ok := block.Body.Attributes[meta]; ok {
				v.exprs = append(v.exprs, attr.Expr)
			}
		}
	}
	g.add(v)
}
