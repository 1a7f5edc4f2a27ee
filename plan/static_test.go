package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/npctl/npctl/resources"
)

func TestFewerSlotsNeedNoConsent(t *testing.T) {
	d := fleet()
	d.Providers = slices.DeleteFunc(d.Providers, func(p resources.Provider) bool { return p.Name == "cloud" })
	o := Observed{Now: now, Installation: "here", Files: []ImageFile{}, Providers: map[string]ProviderView{"lab": {ListedAt: now, Quota: unlimited()}}}
	for slot := range int64(20) {
		o.Records.Nodes = append(o.Records.Nodes, &resources.Node{ID: fmt.Sprintf("%010d", slot+1), State: resources.StateReady, Provider: "lab", Pool: "main",
			Labels: []string{"metal"}, Hash: "v1:metal", Static: true, Hostname: "metal", Slot: slot})
	}
	if p := Compute(d, o, Options{}); p.Summary().Unregister != 19 || p.Consent != nil {
		t.Errorf("19 of 20 slots of a machine go; consent is %+v:\n%s", p.Consent, lines(p))
	}
}

func TestStaticNodesAreUnregisteredByName(t *testing.T) {
	slot := func(id string, n int64) *resources.Node {
		return &resources.Node{ID: id, State: resources.StateReady, Provider: "lab", Pool: "main", Labels: []string{"metal"}, Hash: "v1:metal",
			Static: true, Hostname: "metal", Slot: n}
	}
	for name, test := range map[string]struct {
		change  func(*resources.Desired, *Observed)
		reason  Reason
		address Address
	}{
		"fewer slots": {
			change: func(d *resources.Desired, o *Observed) {
				o.Records.Nodes = append(o.Records.Nodes, slot("0000000004", 1))
			}, reason: ReasonSlotRemoved, address: "provider.lab.pool.main.node.metal[1]"},
		"no such machine": {
			change: func(d *resources.Desired, _ *Observed) { d.Providers[1].Pools[0].Nodes = nil },
			reason: ReasonStaticNodeGone, address: "provider.lab.pool.main.node.metal"},
		"no such pool": {
			change: func(d *resources.Desired, _ *Observed) { d.Providers[1].Pools = nil },
			reason: ReasonPoolRemoved, address: "provider.lab.pool.main.node.metal"},
		"no such provider": {
			change: func(d *resources.Desired, _ *Observed) { d.Providers = d.Providers[:1] },
			reason: ReasonProviderRemoved, address: "provider.lab.pool.main.node.metal"},
		"registered twice": {
			change: func(_ *resources.Desired, o *Observed) {
				o.Records.Nodes = append(o.Records.Nodes, slot("0000000004", 0))
			}, reason: ReasonDuplicate, address: "provider.lab.pool.main.node.metal"},
		"interrupted removal": {
			change: func(d *resources.Desired, o *Observed) {
				d.Providers[1].Pools[0].Nodes = nil
				o.Records.Nodes[2].State = resources.StateDeleting
			}, reason: ReasonUnfinished, address: "provider.lab.pool.main.node.metal"},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := fleet(), settled()
			test.change(&d, &o)
			p := Compute(d, o, Options{})
			var s *Step
			for i := range p.Steps {
				if p.Steps[i].Kind == KindUnregisterSlot {
					s = &p.Steps[i]
				}
			}
			if s == nil || s.Reason != test.reason || !s.Removes() {
				t.Fatalf("want a step to unregister because of %s:\n%s", test.reason, lines(p))
			}
			if s.Address != test.address || s.Node != "metal" || p.Summary().Unregister != 1 || p.Summary().Delete != 0 {
				t.Errorf("got %s of node %s, want %s:\n%s", s.Address, s.Node, test.address, lines(p))
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
	if len(p.Steps) != 1 || p.Steps[0].Action != ActionUpdate || p.Steps[0].Node != "metal" {
		t.Errorf("the plan does not name the machine:\n%s", lines(p))
	}
}
