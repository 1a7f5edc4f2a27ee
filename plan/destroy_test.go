package plan

import (
	"strings"
	"testing"

	"github.com/npctl/npctl/resources"
)

func TestDestroyNamesNodesInUse(t *testing.T) {
	for name, test := range map[string]struct {
		opt  Options
		want bool
	}{
		"destroy":                           {Options{Destroy: true}, true},
		"destroy, images allowed":           {Options{Destroy: true, AllowDestroy: AllowImages}, true},
		"destroy with consent":              {Options{Destroy: true, AllowDestroy: AllowAll}, false},
		"destroy, and the node is left out": {Options{Destroy: true, Excludes: []Address{"node.0000000001"}}, false},
		"nothing":                           {Options{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := fleet(), settled()
			o.Records.Nodes[0].State = resources.StateInUse
			o.Records.Nodes[0].Lease = &resources.Lease{Holder: "alice", Until: now.Add(1e12)}
			text := lines(Compute(d, o, test.opt))
			if got := strings.Contains(text, "problem node.0000000001: node 0000000001 is in-use by alice, and the plan removes it"); got != test.want {
				t.Errorf("the node in use is a problem: %t, want %t\n%s", got, test.want, text)
			}
		})
	}
}

func TestDestroyKeepsReasonsOfFailedRequests(t *testing.T) {
	d, o := fleet(), settled()
	o.Records.Requests = []*resources.Request{
		{ID: "0000000001", State: resources.StateFailed, StateTime: now, Created: now, Labels: []string{"small"}, Error: "no room"},
		{ID: "0000000002", State: resources.StateRequested, StateTime: now, Created: now, Labels: []string{"small"}},
	}
	for _, s := range Compute(d, o, Options{Destroy: true}).Steps {
		if s.Request == "0000000001" {
			t.Errorf("the failed request is changed: %s", s.ID)
		}
	}
}
