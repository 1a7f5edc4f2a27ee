package plan

import (
	"strings"
	"testing"

	"github.com/npctl/npctl/resources"
)

// TestQuotaOfUnfinishedAndDeletedInstances has cloud figures and a listing from a moment in which nodes are created and
// deleted. Only launches that the cloud would accept start.
func TestQuotaOfUnfinishedAndDeletedInstances(t *testing.T) {
	addressed := resources.ResourceAmounts{Instances: 1, Cores: 2, Addresses: 1}
	making := func(o *Observed, id string, shown resources.ResourceAmounts, status resources.Status) {
		n := addReady(o, id)
		n.State, n.Resources = resources.StateBuilding, addressed
		o.Records.Requests = append(o.Records.Requests, &resources.Request{ID: "0", State: resources.StatePending, Labels: []string{"small"},
			Placement: resources.Placement{Provider: "cloud", Pool: "main"}})
		n.Request = "0"
		v := o.Providers["cloud"]
		i := &v.Instances[len(v.Instances)-1]
		i.Resources, i.Status = shown, status
	}
	gone := func(o *Observed, id string, going bool) {
		v := o.Providers["cloud"]
		i := instance(id)
		i.Resources = addressed
		v.Instances = append(v.Instances, i)
		v.DeletedInstances, v.DeletingInstances = map[string]bool{i.ID: true}, map[string]bool{i.ID: going}
		o.Providers["cloud"] = v
	}
	for name, test := range map[string]struct {
		limit, used resources.ResourceAmounts
		change      func(*Observed)
		want        string // why the request waits; empty if it does not
		instances   int64  // in use now
	}{
		"an instance has no address yet": {
			instances: 1,
			limit:     resources.ResourceAmounts{Instances: 9, Cores: 9, Addresses: 1}, used: resources.ResourceAmounts{Instances: 1, Cores: 2},
			change: func(o *Observed) {
				making(o, "0000000011", resources.ResourceAmounts{Instances: 1, Cores: 2}, resources.StatusPending)
			},
			want: "quota: 0 floating IPs left and 1 needed",
		},
		"an instance has its address": {
			instances: 1,
			limit:     resources.ResourceAmounts{Instances: 9, Cores: 9, Addresses: 2}, used: resources.ResourceAmounts{Instances: 1, Cores: 2, Addresses: 1},
			change: func(o *Observed) { making(o, "0000000011", addressed, resources.StatusPending) },
		},
		"the driver shows no addresses": {
			instances: 1,
			limit:     resources.ResourceAmounts{Instances: 9, Cores: 9, Addresses: 2}, used: resources.ResourceAmounts{Instances: 1, Cores: 2, Addresses: 1},
			change: func(o *Observed) {
				making(o, "0000000011", resources.ResourceAmounts{Instances: 1, Cores: 2}, resources.StatusReady)
			},
		},
		"the figures are older than the listing": {
			instances: 1,
			limit:     resources.ResourceAmounts{Instances: 2, Cores: 3, Addresses: 9},
			change:    func(o *Observed) { making(o, "0000000011", addressed, resources.StatusReady) },
			want:      "quota: 1 core left and 2 needed",
		},
		"an instance went between the listing and the figures": {
			instances: 1,
			limit:     resources.ResourceAmounts{Instances: 1, Cores: 9, Addresses: 9},
			change: func(o *Observed) {
				gone(o, "0000000099", true)
				making(o, "0000000011", resources.ResourceAmounts{}, resources.StatusPending)
			},
			want: "quota: 0 instances left and 1 needed",
		},
		"an address went before the listing, its instance after it": {
			limit: resources.ResourceAmounts{Instances: 9, Cores: 9, Addresses: 1}, used: resources.ResourceAmounts{Instances: 1, Cores: 2, Addresses: 1},
			change: func(o *Observed) { gone(o, "0000000099", true) },
			want:   "quota: 0 floating IPs left and 1 needed",
		},
		"all of an instance went after the listing": {
			limit: resources.ResourceAmounts{Instances: 1, Cores: 2, Addresses: 1}, used: addressed,
			change: func(o *Observed) { gone(o, "0000000099", false) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := idle()
			view := o.Providers["cloud"]
			view.Quota.Limit.Instances, view.Quota.Limit.Cores, view.Quota.Limit.Addresses = test.limit.Instances, test.limit.Cores, test.limit.Addresses
			view.Quota.Used = test.used
			view.Offers = map[OfferKey]OfferView{{"main", "small"}: {ResolvedOffer: resources.ResolvedOffer{Resources: addressed}}}
			o.Providers["cloud"] = view
			o.Records.Requests = []*resources.Request{request("1", "small")}
			test.change(&o)
			if used := o.Quota("cloud").Used; used.Instances != test.instances {
				t.Errorf("%+v is in use, want %d instances", used, test.instances)
			}
			got := answers(Compute(d, o, Options{Explain: true}))
			if waits := strings.Contains(got, "request.1 waits: cloud/main: "+test.want); test.want != "" && !waits {
				t.Errorf("want the request to wait: %s; got\n%s", test.want, got)
			}
			if begun := strings.Contains(got, "launch request 1 #1"); begun != (test.want == "") {
				t.Errorf("launch is %t; got\n%s", begun, got)
			}
		})
	}
}

// TestQuotaUsedNow has a listing from before two launches and a deletion: status, metrics and "npctl why" show the result of both.
func TestQuotaUsedNow(t *testing.T) {
	_, o := idle("0000000012", "0000000013")
	v, deleted := o.Providers["cloud"], instance("0000000011")
	v.Instances, v.Quota.Used = []resources.Instance{deleted}, resources.ResourceAmounts{Instances: 3} // two of others
	v.DeletedInstances = map[string]bool{deleted.ID: true}
	o.Providers["cloud"] = v
	if used := o.Quota("cloud").Used; used.Instances != 4 {
		t.Errorf("%d instances are in use, want two of others and two launched ones", used.Instances)
	}
}
