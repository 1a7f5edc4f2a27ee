package render

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/plan/plantest"
)

func TestGraphShowsDependencies(t *testing.T) {
	p := plan.Plan{Steps: []plan.Step{plantest.Build("debian"), plantest.Upload("debian", "rax", 11), plantest.Launch("debian-small", 0)}}
	p.Steps[2].After = []string{p.Steps[1].ID, "a step of another plan"}
	checkGolden(t, "graph.dot", Graph(p))

	doc, err := GraphJSON(p)
	testutil.Must(t, err)
	if err := schemaCheck(reportSchema(t, "#/$defs/graph"), doc); err != nil {
		t.Error(err)
	}
	var graph graphDoc
	testutil.Must(t, json.Unmarshal(doc, &graph))
	want := []graphEdge{
		{"upload provider.rax.image.debian", "build diskimage.debian", "needs"},
		{"launch provider.vexxhost.pool.main.label.debian-small #0", "upload provider.rax.image.debian", "after"},
	}
	if diff := cmp.Diff(want, graph.Edges); diff != "" || len(graph.Nodes) != 3 {
		t.Errorf("%d nodes, edges (-want +got):\n%s", len(graph.Nodes), diff)
	}
}

func TestGraphIsDeterministicAndEscaped(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := plantest.DrawPlan(r)
		dot := Graph(p)
		doc, err := GraphJSON(p)
		testutil.Must(r, err)
		if !json.Valid(doc) {
			r.Fatalf("no JSON: %s", doc)
		}
		for _, c := range dot + string(doc) {
			if c != '\n' && c != '\t' && text.Hostile(c) {
				r.Fatalf("%q in %s\n%s", c, dot, doc)
			}
		}
		if again := Graph(p); again != dot {
			r.Fatalf("another graph the second time (-first +second):\n%s", cmp.Diff(dot, again))
		}
		if nodes := strings.Count(dot, `shape="box"`); nodes < len(p.Steps) {
			r.Fatalf("%d of %d steps in\n%s", nodes, len(p.Steps), dot)
		}
	})
}

func BenchmarkGraph(b *testing.B) {
	p := plantest.BigPlan(10_000)
	for b.Loop() {
		if Graph(p) == "" {
			b.Fatal("empty")
		}
	}
}
