package plan

import (
	"strings"
	"testing"

	"github.com/npctl/npctl/resources"
)

func TestStaticNodesAreUnregisteredByName(t *testing.T) {
	slot := func(id string, n int64) *resources.Node {
		return &resources.Node{ID: id, State: resources.StateReady, Provider: "lab", Pool: "main", Labels: []string{"metal"}, Hash: "v1:metal",
			Static: true, Hostname: "metal", Slot: n}
	}
	for name, test := range map[string]struct {
		change func(*resources.Desired, *Observed)
		reason Reason
		title  string
	}{
		"fewer slots": {
			change: func(d *resources.Desired, o *Observed) {
				o.Records.Nodes = append(o.Records.Nodes, slot("0000000004", 1))
			}, reason: ReasonSlotRemoved, title: "- unregister metal[1] metal in lab/main"},
		"no such machine": {
			change: func(d *resources.Desired, _ *Observed) { d.Providers[1].Pools[0].Nodes = nil },
			reason: ReasonStaticNodeGone, title: "- unregister metal metal in lab/main"},
		"no such pool": {
			change: func(d *resources.Desired, _ *Observed) { d.Providers[1].Pools = nil },
			reason: ReasonPoolRemoved, title: "- unregister metal metal in lab/main"},
		"no such provider": {
			change: func(d *resources.Desired, _ *Observed) { d.Providers = d.Providers[:1] },
			reason: ReasonProviderRemoved, title: "- unregister metal metal in lab/main"},
		"registered twice": {
			change: func(_ *resources.Desired, o *Observed) {
				o.Records.Nodes = append(o.Records.Nodes, slot("0000000004", 0))
			}, reason: ReasonDuplicate, title: "- unregister metal metal in lab/main"},
		"interrupted removal": {
			change: func(d *resources.Desired, o *Observed) {
				d.Providers[1].Pools[0].Nodes = nil
				o.Records.Nodes[2].State = resources.StateDeleting
			}, reason: ReasonUnfinished, title: "- unregister metal metal in lab/main"},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := fleet(), settled()
			test.change(&d, &o)
			p := Compute(d, o, Options{})
			var s *Step
			for i := range p.Steps {
				if p.Steps[i].Action == ActionUnregister {
					s = &p.Steps[i]
				}
			}
			if s == nil || s.Reason != test.reason || !s.Removes() {
				t.Fatalf("want a step to unregister because of %s:\n%s", test.reason, lines(p))
			}
			if text := renderText(t, p, TextOptions{}); !strings.Contains(text, test.title) || !strings.Contains(text, "1 to unregister, 0 to delete.") {
				t.Errorf("the text lacks %q:\n%s", test.title, text)
			}
		})
	}
}

func TestGuardsCountUnregistering(t *testing.T) {
	d, o := fleet(), settled()
	d.Providers[1].Pools[0].Nodes = nil
	if p := Compute(d, o, Options{AllowDestroy: AllowNone}); len(p.Problems) != 1 || !strings.Contains(p.Problems[0].Text, "the plan unregisters node") {
		t.Errorf("-allow-destroy=none: %v", p.Problems)
	}
	d.Providers[1].PreventDestroy = true
	if p := Compute(d, o, Options{}); len(p.Problems) != 1 || !strings.Contains(p.Problems[0].Text, "has prevent_destroy") {
		t.Errorf("prevent_destroy: %v", p.Problems)
	}
}

func TestStaticNodeOfDeletedRequestIsNamed(t *testing.T) {
	o := settled()
	o.Records.Nodes[2].Request = "0000000099"
	p := Compute(fleet(), o, Options{})
	if text := renderText(t, p, TextOptions{}); !strings.Contains(text, "update metal metal in lab/main") || strings.Contains(text, "0000000003") {
		t.Errorf("the plan does not name the machine:\n%s", text)
	}
}
