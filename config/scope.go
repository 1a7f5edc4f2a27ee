package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// evaluate evaluates every vertex and returns the scope of all bodies.
func (g *graph) evaluate(base *hcl.EvalContext) *hcl.EvalContext {
	for _, root := range slices.Sorted(maps.Keys(g.vertices)) {
		for _, name := range g.eval.declared[root] {
			g.evaluateVertex(g.vertices[root][name], base)
		}
	}
	full := base.NewChild()
	full.Variables = map[string]cty.Value{}
	for root, vertices := range g.vertices {
		full.Variables[root] = objectOf(vertices)
	}
	return full
}

func objectOf(vertices map[string]*vertex) cty.Value {
	attrs := make(map[string]cty.Value, len(vertices))
	for name, v := range vertices {
		attrs[name] = v.value
	}
	return cty.ObjectVal(attrs)
}

// evaluateVertex walks depth first with an explicit stack, since only the file size limits the length of a chain of
// locals.
func (g *graph) evaluateVertex(start *vertex, base *hcl.EvalContext) {
	stack := []*vertex{start}
	for len(stack) > 0 {
		v := stack[len(stack)-1]
		if v.state == done {
			stack = stack[:len(stack)-1]
			continue
		}
		needs := g.needs(v)
		if v.state == waiting {
			v.state = entered
			before := len(stack)
			for _, need := range needs {
				if need.state == entered {
					g.reportCycle(need)
				}
				if need.state == waiting {
					stack = append(stack, need)
				}
			}
			if len(stack) > before {
				continue
			}
		}
		g.finishVertex(v, needs, base)
		stack = stack[:len(stack)-1]
	}
}

// needs lists the vertices to which a vertex refers, in source order. A reference to a whole root needs all its
// vertices.
func (g *graph) needs(v *vertex) []*vertex {
	if v.refs != nil {
		return v.refs
	}
	v.refs = []*vertex{}
	for _, expr := range v.exprs {
		for _, traversal := range expr.Variables() {
			v.refs = append(v.refs, g.referred(v, traversal)...)
		}
	}
	more := len(v.refs) + 1 // the vertex counts too, since modules multiply it
	if g.expand.edges -= more; g.expand.edges < 0 && g.expand.edges+more >= 0 {
		g.problem(v.at.Ptr(), "Too many references", fmt.Sprintf("Up to here, local values and blocks have more than "+
			"%d references to each other, the limit.", maxEdges))
	}
	if g.expand.edges < 0 {
		v.refs = []*vertex{}
	}
	return v.refs
}

func (g *graph) referred(from *vertex, traversal hcl.Traversal) []*vertex {
	vertices, ok := g.vertices[traversal.RootName()]
	if !ok {
		return nil
	}
	if len(traversal) > 1 {
		if name, ok := stepName(traversal[1]); ok {
			if need, ok := vertices[name]; ok {
				return []*vertex{need}
			}
			return nil
		}
	}
	all := make([]*vertex, 0, len(vertices))
	for _, name := range g.eval.declared[traversal.RootName()] {
		if need := vertices[name]; need != from {
			all = append(all, need)
		}
	}
	if _, within := vertices[from.name]; within && from.root == traversal.RootName() {
		all = append(all, from) // a reference to itself through the whole root is a cycle
	}
	return all
}

// finishVertex evaluates a vertex after its needs. Needs that are part of a cycle count as unknown.
func (g *graph) finishVertex(v *vertex, needs []*vertex, base *hcl.EvalContext) {
	v.state, v.value = done, cty.DynamicVal
	ctx := base.NewChild()
	ctx.Variables = map[string]cty.Value{}
	seen := map[string]map[string]*vertex{}
	for _, need := range needs {
		if seen[need.root] == nil {
			seen[need.root] = map[string]*vertex{}
		}
		if need.state != done || need == v { // part of a cycle, already reported
			g.incomplete[v.root] = true
			return
		}
		seen[need.root][need.name] = need
	}
	for root := range referable {
		if root != "var" && root != "cloud_image" {
			ctx.Variables[root] = objectOf(seen[root])
		}
	}
	if v.block == nil {
		if value, ok := g.eval.evaluate(v.exprs[0], ctx); ok {
			v.value, v.good = value, true
		}
		return
	}
	if v.root == "module" {
		v.value, v.good = g.call(v, ctx)
		g.partial = g.partial || !v.good
		return
	}
	if v.found, v.good = g.expand.instances(v.block, v.label, ctx, v.root); !v.good {
		return
	}
	v.value = refsTo(v.root, v.found)
}

// refsTo returns the value of a reference to a block: one reference, or a map of them by for_each key.
func refsTo(root string, all []instance) cty.Value {
	if slices.ContainsFunc(all, func(i instance) bool { return isPlaceholder(i.name) }) {
		return cty.DynamicVal
	}
	if len(all) == 1 && !all[0].keyed {
		return refTo(root, all[0].name)
	}
	if len(all) == 0 {
		return cty.EmptyObjectVal
	}
	byKey := make(map[string]cty.Value, len(all))
	for _, one := range all {
		byKey[one.key] = refTo(root, one.name)
	}
	return cty.ObjectVal(byKey)
}

// refTo returns a schema.ImageRef for images and the name for all other objects.
func refTo(root, name string) cty.Value {
	switch root {
	case "diskimage", "zuul_image", "cloud_image":
		return cty.ObjectVal(map[string]cty.Value{"type": cty.StringVal(root), "name": cty.StringVal(name)})
	default:
		return cty.StringVal(name)
	}
}

// reportCycle reports the whole cycle, from a vertex back to itself.
func (g *graph) reportCycle(start *vertex) {
	if g.cycles++; g.cycles > 20 {
		return
	}
	chain := g.cycleOf(start)
	names := make([]string, 0, len(chain)+1)
	for i, v := range chain {
		if i == 20 {
			names = append(names, fmt.Sprintf("… (%d more)", len(chain)-i))
			break
		}
		names = append(names, v.id())
	}
	names = append(names, start.id())
	g.problem(start.at.Ptr(), "Reference cycle", "These refer to each other, so none of them can be evaluated: "+strings.Join(names, " -> ")+".")
}

// cycleOf finds the shortest cycle through a vertex.
func (g *graph) cycleOf(start *vertex) []*vertex {
	previous := map[*vertex]*vertex{}
	queue := []*vertex{start}
	for len(queue) > 0 {
		v := queue[0]
		queue = queue[1:]
		for _, need := range g.needs(v) {
			if need == start {
				return wayTo(v, previous)
			}
			if _, seen := previous[need]; !seen {
				previous[need] = v
				queue = append(queue, need)
			}
		}
	}
	return []*vertex{start}
}

func wayTo(end *vertex, previous map[*vertex]*vertex) []*vertex {
	var path []*vertex
	for at := end; at != nil; at = previous[at] {
		path = append(path, at)
	}
	slices.Reverse(path)
	return path
}
