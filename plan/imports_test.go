package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// TestImportsAreDecidedByTheirObject: tags, records and status of an object decide whether npctl imports it.
func TestImportsAreDecidedByTheirObject(t *testing.T) {
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	server := func(marks resources.OwnerTags) plan.ImportView {
		return plan.ImportView{Found: true, ExistingObject: resources.ExistingObject{Instance: resources.Instance{ID: "s1", Name: "precious", Marks: marks,
			Status: resources.StatusReady, Created: created, Resources: resources.ResourceAmounts{Instances: 1}}}}
	}
	foreign := resources.OwnerTags{Installation: "other", Kind: resources.KindNode, ID: "0000000001"}
	own := resources.OwnerTags{Installation: "here", Kind: resources.KindNode, ID: "0000000009"}
	unfinished := &resources.Node{ID: "0000000009", State: resources.StateBuilding, StateTime: created, Provider: "one", Pool: "main", Labels: []string{"small"},
		ExternalID: "s1", Importing: resources.StateHold}
	for name, test := range map[string]struct {
		object   plan.ImportView
		nodes    []*resources.Node
		listed   []resources.Instance
		imported []string
		label    string
		opt      plan.Options
		want     string // action and reason of the steps, or the text of the problem
	}{
		"a server without an owner":            {object: server(resources.OwnerTags{}), want: "import named"},
		"a server of another npctl":            {object: server(foreign), want: "ownership tags of another npctl, installation other"},
		"a server of a record":                 {object: server(own), nodes: []*resources.Node{{ID: own.ID, State: resources.StateHold, Provider: "one", Pool: "main", Labels: []string{"small"}, ExternalID: "s2"}}, listed: []resources.Instance{{ID: "s2", Marks: own, Status: resources.StatusReady}}, want: "has the ownership tags of node/0000000009 of this npctl"},
		"a server whose record is lost":        {object: server(own), want: "import named"},
		"a server that does not exist":         {object: plan.ImportView{}, listed: []resources.Instance{{ID: "s1", Name: "x"}}, want: `no server with the ID "s1"`},
		"a server that could not be read":      {object: plan.ImportView{Err: "no route"}, want: "could not be read: no route"},
		"a label that does not exist":          {object: server(resources.OwnerTags{}), label: "tiny", want: "does not offer label tiny"},
		"a node of another provider":           {object: server(resources.OwnerTags{}), nodes: []*resources.Node{{ID: "0000000004", State: resources.StateHold, Provider: "rax", ExternalID: "s1"}}, want: "s1 is node 0000000004 of provider rax already"},
		"a server that was imported and used":  {object: plan.ImportView{}, imported: []string{"s1"}, want: ""},
		"an unfinished import":                 {nodes: []*resources.Node{unfinished}, listed: []resources.Instance{{ID: "s1", Status: resources.StatusReady}}, want: "import unfinished"},
		"an unfinished import, tagged":         {nodes: []*resources.Node{unfinished}, listed: []resources.Instance{{ID: "s1", Marks: own, Status: resources.StatusReady}}, want: "import unfinished"},
		"an unfinished import, server gone":    {nodes: []*resources.Node{unfinished}, want: "forget lost"},
		"an unfinished import, taken":          {nodes: []*resources.Node{unfinished}, listed: []resources.Instance{{ID: "s1", Marks: foreign, Status: resources.StatusReady}}, want: "forget not-ours"},
		"an unfinished import, destroy":        {nodes: []*resources.Node{unfinished}, listed: []resources.Instance{{ID: "s1", Status: resources.StatusReady}}, opt: plan.Options{Destroy: true}, want: "forget destroy"},
		"an unfinished tagged import, destroy": {nodes: []*resources.Node{unfinished}, listed: []resources.Instance{{ID: "s1", Marks: own, Status: resources.StatusReady}}, opt: plan.Options{Destroy: true}, want: "delete destroy"},
	} {
		t.Run(name, func(t *testing.T) {
			label := test.label
			if label == "" {
				label = "small"
			}
			want := resources.Desired{Labels: []resources.Label{{Name: "small"}}, Providers: []resources.Provider{{Name: "one", Pools: []resources.Pool{{Name: "main",
				Offers: []resources.Offer{{Label: "small", Image: resources.ImageRef{Kind: resources.CloudImage, Name: "x"}}}}}}},
				Imports: []resources.Import{{Provider: "one", Pool: "main", Label: label, ID: "s1", State: resources.StateHold}}}
			seen := plan.Observed{Installation: "here", Now: created.Add(2 * time.Hour), Records: plan.Records{Nodes: test.nodes,
				Providers: []*resources.ProviderRecord{{Name: "one", Imported: test.imported}}},
				Providers: map[string]plan.ProviderView{"one": {ListedAt: created.Add(time.Hour), Instances: test.listed,
					Imports: map[plan.ImportKey]plan.ImportView{{Kind: resources.KindNode, ID: "s1"}: test.object}}}}
			var got []string
			p := plan.Compute(want, seen, test.opt)
			for _, s := range p.Steps {
				if s.Thing == plan.ThingNode {
					got = append(got, string(s.Action)+" "+string(s.Reason))
				}
			}
			for _, q := range p.Problems {
				got = append(got, q.Text)
			}
			text := strings.Join(got, "; ")
			if len(got) > 1 || test.want == "" && text != "" || !strings.Contains(text, test.want) {
				t.Errorf("got %q, want %q", text, test.want)
			}
		})
	}
}
