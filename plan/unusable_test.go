package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/resources"
)

// TestReadyNodeIsOneThatAJobCanUseNow compares ready nodes with the listing. A node in use belongs to its user.
func TestReadyNodeIsOneThatAJobCanUseNow(t *testing.T) {
	const deleted = "delete node.0000000001: "
	pending := func(_ *resources.Node, i *resources.Instance) { i.Status = resources.StatusPending }
	failed := func(_ *resources.Node, i *resources.Instance) { i.Status = resources.StatusFailed }
	moved := func(n *resources.Node, i *resources.Instance) {
		n.Addresses = resources.Addresses{Interface: "198.51.100.1", PublicIPv4: "198.51.100.1", PrivateIPv4: "10.0.0.1"}
		i.Addresses = resources.Addresses{Interface: "198.51.100.1", PublicIPv4: "198.51.100.9", PrivateIPv4: "10.0.0.1"}
	}
	private := resources.Addresses{Interface: "10.0.0.1", PrivateIPv4: "10.0.0.1"}
	for name, test := range map[string]struct {
		change func(*resources.Node, *resources.Instance)
		want   string
	}{
		"ready":                    {func(*resources.Node, *resources.Instance) {}, ""},
		"pod deleted":              {pending, deleted + "not-ready"},
		"another address":          {moved, deleted + "address-changed"},
		"an address is not listed": {func(n *resources.Node, _ *resources.Instance) { n.Addresses.PublicIPv4 = "198.51.100.1" }, ""},
		"no address": {func(n *resources.Node, i *resources.Instance) {
			n.Addresses, i.Addresses = private, resources.Addresses{}
		}, deleted + "not-ready"},
		"a further address":       {func(_ *resources.Node, i *resources.Instance) { i.Addresses.PublicIPv6 = "2001:db8::1" }, ""},
		"ready since the listing": {func(n *resources.Node, i *resources.Instance) { pending(n, i); n.StateTime = now.Add(time.Second) }, ""},
		"pending, in use":         {func(n *resources.Node, i *resources.Instance) { pending(n, i); n.State = resources.StateInUse }, ""},
		"another address, in use": {func(n *resources.Node, i *resources.Instance) { moved(n, i); n.State = resources.StateInUse }, ""},
		"failed":                  {failed, deleted + "failed"},
		"stopped, in use":         {func(n *resources.Node, i *resources.Instance) { failed(n, i); n.State = resources.StateInUse }, ""},
		"stopped, on hold":        {func(n *resources.Node, i *resources.Instance) { failed(n, i); n.State = resources.StateHold }, ""},
		"pending, on hold":        {func(n *resources.Node, i *resources.Instance) { pending(n, i); n.State = resources.StateHold }, ""},
		"floating IP removed":     {func(n *resources.Node, i *resources.Instance) { pending(n, i); i.AddressLate = true }, deleted + "not-ready"},
		"floating IP not shown yet": {func(n *resources.Node, i *resources.Instance) {
			pending(n, i)
			i.AddressLate = true
			n.StateTime = now.Add(-time.Minute)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := fleet(), settled()
			test.change(o.Records.Nodes[0], &o.Providers["cloud"].Instances[0])
			if text := lines(Compute(d, o, Options{})); !strings.Contains(text, test.want) || test.want == "" && strings.Contains(text, deleted) {
				t.Errorf("want %q:\n%s", test.want, text)
			}
		})
	}
}
