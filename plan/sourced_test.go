package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/resources"
)

// TestReadySlotsOfAnUnusableBackingNodeEnd: no client receives one. The backing node is retired: it gets no further slots.
func TestReadySlotsOfAnUnusableBackingNodeEnd(t *testing.T) {
	const slot, backing, lost = "delete node.0000000009: not-ready", "update node.0000000001: not-ready", "forget node.0000000001: lost"
	moved := func(n *resources.Node, i *resources.Instance) {
		n.Addresses, i.Addresses = resources.Addresses{PublicIPv4: "198.51.100.1"}, resources.Addresses{PublicIPv4: "198.51.100.9"}
	}
	for name, test := range map[string]struct {
		change func(backing *resources.Node, listed *resources.Instance, slot *resources.Node)
		want   []string
	}{
		"usable":          {func(*resources.Node, *resources.Instance, *resources.Node) {}, nil},
		"another address": {func(n *resources.Node, i *resources.Instance, _ *resources.Node) { moved(n, i) }, []string{slot, backing}},
		"failed": {func(_ *resources.Node, i *resources.Instance, _ *resources.Node) { i.Status = resources.StatusFailed },
			[]string{slot, backing}},
		"being deleted": {func(_ *resources.Node, i *resources.Instance, _ *resources.Node) { i.Status = resources.StatusDeleting },
			[]string{slot, lost}},
		"a job runs on it": {func(n *resources.Node, i *resources.Instance, slot *resources.Node) {
			moved(n, i)
			slot.State = resources.StateInUse
		}, []string{backing}},
		"retired": {func(n *resources.Node, i *resources.Instance, _ *resources.Node) { moved(n, i); n.Retired = true }, []string{slot}},
		"ready since the listing": {func(n *resources.Node, i *resources.Instance, slot *resources.Node) {
			moved(n, i)
			slot.StateTime = now.Add(time.Second)
		}, []string{backing}},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := fleet(), settled()
			d.Labels = append(d.Labels, resources.Label{Name: "job"})
			d.Providers = append(d.Providers, resources.Provider{Name: "slots", Driver: "metastatic",
				Pools: []resources.Pool{{Name: "main", Offers: []resources.Offer{{Label: "job"}}}}})
			n := o.Records.Nodes[0]
			n.State, n.Request, n.Requestor = resources.StateInUse, "7", resources.SourceRequestor("metastatic", "slots")
			s := &resources.Node{ID: "0000000009", Provider: "slots", Pool: "main", Labels: []string{"job"}, State: resources.StateReady,
				StateTime: n.StateTime, ExternalID: "7-0"}
			o.Records.Nodes = append(o.Records.Nodes, s)
			o.Records.Providers = append(o.Records.Providers, &resources.ProviderRecord{Name: "slots", Driver: "metastatic"})
			o.Providers["slots"] = ProviderView{ListedAt: o.Providers["cloud"].ListedAt, Instances: []resources.Instance{{ID: "7-0", Status: resources.StatusReady,
				Marks: resources.OwnerTags{Installation: o.Installation, Kind: resources.KindNode, ID: s.ID, Provider: "slots"}}}}
			test.change(n, &o.Providers["cloud"].Instances[0], s)
			text := lines(Compute(d, o, Options{}))
			for _, step := range []string{slot, backing, lost} {
				if planned, want := strings.Contains(text, step), slices.Contains(test.want, step); planned != want {
					t.Errorf("%q is planned: %v, want %v:\n%s", step, planned, want, text)
				}
			}
		})
	}
}
