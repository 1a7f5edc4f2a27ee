package render

import (
	"encoding/json"
	"fmt"

	"github.com/emicklei/dot"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
)

// Graph returns the plan's steps in the DOT language: an arrow points from each step to a step that it waits for, a
// dashed one if the other step only has to end. Steps are grouped by provider; names are escaped.
func Graph(p plan.Plan) string {
	g := dot.NewGraph(dot.Directed)
	g.Attr("rankdir", "RL")
	nodes := make(map[string]dot.Node, len(p.Steps))
	for i := range p.Steps {
		s := &p.Steps[i]
		home := g
		if s.Provider != "" {
			home = g.Subgraph(safe("provider."+s.Provider), dot.ClusterOption{})
		}
		nodes[s.ID] = home.Node(s.ID).
			Attr("label", safe(string(s.Action)+" "+string(s.Address))+"\n"+safe(string(s.Reason))).
			Attr("shape", "box").Attr("color", graphColor(s))
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		for _, id := range s.Needs {
			if to, in := nodes[id]; in {
				g.Edge(nodes[s.ID], to)
			}
		}
		for _, id := range s.After {
			if to, in := nodes[id]; in {
				g.Edge(nodes[s.ID], to).Attr("style", "dashed")
			}
		}
	}
	return g.String()
}

func graphColor(s *plan.Step) string {
	switch symbolOf(s) {
	case symbolMake:
		return "darkgreen"
	case symbolRemove, symbolLeak:
		return "red"
	default:
		return "orange"
	}
}

type graphDoc struct {
	FormatVersion string      `json:"format_version"`
	Nodes         []graphNode `json:"nodes"`
	Edges         []graphEdge `json:"edges"`
}

type graphNode struct {
	ID       string       `json:"id"`
	Address  plan.Address `json:"address"`
	Action   plan.Action  `json:"action"`
	Thing    plan.Thing   `json:"thing"`
	Reason   plan.Reason  `json:"action_reason"`
	Provider string       `json:"provider,omitempty"`
	Estimate float64      `json:"estimate_seconds,omitempty"`
}

// graphEdge points from a step to another step that it waits for: until it has succeeded ("needs") or ended
// ("after").
type graphEdge struct {
	From string `json:"from"`
	To   string `json:"to"`
	Type string `json:"type"`
}

// GraphJSON returns the same graph as JSON, described in docs/plan-json.md.
func GraphJSON(p plan.Plan) ([]byte, error) {
	doc := graphDoc{FormatVersion: reportVersion, Nodes: make([]graphNode, len(p.Steps)), Edges: []graphEdge{}}
	in := make(map[string]bool, len(p.Steps))
	for i := range p.Steps {
		s := &p.Steps[i]
		in[s.ID] = true
		doc.Nodes[i] = graphNode{s.ID, s.Address, s.Action, s.Thing, s.Reason, s.Provider, s.Estimate}
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		doc.Edges = append(doc.Edges, graphEdges(s.ID, "needs", s.Needs, in)...)
		doc.Edges = append(doc.Edges, graphEdges(s.ID, "after", s.After, in)...)
	}
	out, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("graph as JSON: %w", err)
	}
	return append(text.JSON(out), '\n'), nil
}

func graphEdges(from, kind string, to []string, in map[string]bool) []graphEdge {
	var edges []graphEdge
	for _, id := range to {
		if in[id] {
			edges = append(edges, graphEdge{from, id, kind})
		}
	}
	return edges
}
