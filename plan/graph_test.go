package plan

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestGraphShowsDependencies(t *testing.T) {
	p := Plan{Steps: []Step{sampleBuild("debian"), sampleUpload("debian", "rax", 11), sampleLaunch("debian-small", 0)}}
	p.Steps[2].After = []string{p.Steps[1].ID, "a step of another plan"}
	renderGolden(t, "graph.dot", p.Graph())

	doc, err := p.GraphJSON()
	if err != nil {
		t.Fatal(err)
	}
	if err := schemaCheck(reportSchema(t, "#/$defs/graph"), doc); err != nil {
		t.Error(err)
	}
	var graph graphDoc
	if err := json.Unmarshal(doc, &graph); err != nil {
		t.Fatal(err)
	}
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
		p := anyPlan(r)
		text := p.Graph()
		doc, err := p.GraphJSON()
		if err != nil {
			r.Fatal(err)
		}
		if !json.Valid(doc) {
			r.Fatalf("no JSON: %s", doc)
		}
		for _, c := range text + string(doc) {
			if c != '\n' && c != '\t' && renderHostile(c) {
				r.Fatalf("%q in %s\n%s", c, text, doc)
			}
		}
		if again := p.Graph(); again != text {
			r.Fatalf("another graph the second time (-first +second):\n%s", cmp.Diff(text, again))
		}
		if nodes := strings.Count(text, `shape="box"`); nodes < len(p.Steps) {
			r.Fatalf("%d of %d steps in\n%s", nodes, len(p.Steps), text)
		}
	})
}

func BenchmarkGraph(b *testing.B) {
	p := bigPlan(10_000)
	for b.Loop() {
		if p.Graph() == "" {
			b.Fatal("empty")
		}
	}
}
