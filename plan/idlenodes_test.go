package plan

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/npctl/npctl/resources"
)

// The machine that was idle longest has two labels. It used to be assigned to the label that other machines have too,
// and a request for both labels waited forever.
func TestMatchKeepsOnlyNodeOfALabelForThatLabel(t *testing.T) {
	both, one := &resources.Node{ID: "both", Labels: []string{"metal", "big"}}, &resources.Node{ID: "one", Labels: []string{"metal"}}
	s := &idleNodes{nodes: []*resources.Node{both, one}}
	nodes, n := s.match([]string{"metal", "big"}, nil, "", true)
	if want := []string{"one", "both"}; n != 2 || !slices.Equal(nodes, want) {
		t.Errorf("got %q, want %q", nodes, want)
	}
}

func TestMatchServesMaximumNumberOfLabels(t *testing.T) {
	label := rapid.SampledFrom([]string{"a", "b", "c"})
	rapid.Check(t, func(t *rapid.T) {
		s := &idleNodes{}
		for i := range rapid.IntRange(0, 5).Draw(t, "nodes") {
			s.nodes = append(s.nodes, &resources.Node{ID: fmt.Sprint(i), Labels: rapid.SliceOfNDistinct(label, 1, 3, rapid.ID[string]).Draw(t, "labels")})
		}
		wanted := rapid.SliceOfN(label, 1, 4).Draw(t, "wanted")
		nodes, n := s.match(wanted, nil, "", true)
		given := map[string]bool{}
		for k, id := range nodes {
			if id == "" {
				continue
			}
			i := slices.IndexFunc(s.nodes, func(node *resources.Node) bool { return node.ID == id })
			if given[id] || !slices.Contains(s.nodes[i].Labels, wanted[k]) {
				t.Fatalf("%q are given for %q", nodes, wanted)
			}
			given[id] = true
		}
		if most := mostOf(s.nodes, wanted); n != len(given) || n != most {
			t.Fatalf("%d of %q are matched, by %q; it could be %d", n, wanted, nodes, most)
		}
	})
}

// mostOf tries all assignments and returns the size of the largest.
func mostOf(nodes []*resources.Node, wanted []string) (most int) {
	if len(wanted) == 0 {
		return 0
	}
	most = mostOf(nodes, wanted[1:])
	for i, n := range nodes {
		if slices.Contains(n.Labels, wanted[0]) {
			most = max(most, 1+mostOf(slices.Delete(slices.Clone(nodes), i, i+1), wanted[1:]))
		}
	}
	return most
}
