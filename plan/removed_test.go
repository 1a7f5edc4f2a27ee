package plan

import (
	"slices"
	"strings"
	"testing"

	"github.com/npctl/npctl/resources"
)

func removed(t *testing.T, addresses ...string) (removals resources.Removals) {
	t.Helper()
	for _, a := range addresses {
		ref, err := resources.ParseRemovedRef(a)
		if err != nil || ref.String() != a {
			t.Fatalf("ParseRemovedRef(%q) = %s, %v", a, ref, err)
		}
		removals = append(removals, resources.Removal{From: ref})
	}
	return removals
}

// inCloud adds the server of each node and the image of each upload to the listing.
func inCloud(o Observed) Observed {
	view := o.Providers["cloud"]
	view.ListedAt = o.Now
	view.Instances, view.Images = nil, nil
	for _, n := range o.Records.Nodes {
		if n.Static {
			continue
		}
		n.ExternalID = "server-" + n.ID
		view.Instances = append(view.Instances, resources.Instance{ID: n.ExternalID, Name: "np" + n.ID, Status: resources.StatusReady,
			Marks: resources.OwnerTags{Installation: o.Installation, Kind: resources.KindNode, ID: n.ID}})
	}
	for _, u := range o.Records.Uploads {
		view.Images = append(view.Images, resources.RemoteImage{ID: u.ExternalID, Status: resources.StatusReady,
			Marks: resources.OwnerTags{Installation: o.Installation, Kind: resources.KindUpload, ID: u.ID}})
	}
	o.Providers["cloud"] = view
	return o
}

// TestRemovedBlocksForget: the objects of a removed block are forgotten where npctl would delete them without it.
func TestRemovedBlocksForget(t *testing.T) {
	without := func(change func(*resources.Desired)) resources.Desired {
		d := fleet()
		change(&d)
		return d
	}
	noLabel := without(func(d *resources.Desired) { d.Labels = d.Labels[1:]; d.Providers[0].Pools[0].Offers = nil })
	noPool := without(func(d *resources.Desired) { d.Providers[0].Pools = nil })
	noCloud := without(func(d *resources.Desired) { d.Providers = d.Providers[1:] })
	noImage := without(func(d *resources.Desired) { d.Images, d.Providers = nil, d.Providers[1:] })
	noStatic := without(func(d *resources.Desired) { d.Providers = d.Providers[:1] })
	for name, test := range map[string]struct {
		want    resources.Desired
		removed []string
		opt     Options
		change  func(*Observed)
		steps   []string // action, record and reason of the steps that remove or forget
		note    string
		problem string
	}{
		"a label":               {want: noLabel, removed: []string{"label.small"}, steps: []string{"forget node/0000000001 removed", "forget node/0000000002 removed", "delete upload/1 image-removed"}},
		"a label of a pool":     {want: noLabel, removed: []string{"provider.cloud.pool.main.label.small", "provider.cloud.image.debian"}, steps: []string{"forget node/0000000001 removed", "forget node/0000000002 removed", "forget upload/1 removed"}},
		"a label elsewhere":     {want: noLabel, removed: []string{"provider.cloud.pool.other.label.small"}, steps: []string{"delete node/0000000001 label-removed", "delete node/0000000002 label-removed", "delete upload/1 image-removed"}},
		"a pool":                {want: noPool, removed: []string{"provider.cloud.pool.main"}, steps: []string{"forget node/0000000001 removed", "forget node/0000000002 removed", "delete upload/1 image-removed"}},
		"a provider":            {want: noCloud, removed: []string{"provider.cloud"}, steps: []string{"forget node/0000000001 removed", "forget node/0000000002 removed", "forget provider/cloud nothing-left", "forget upload/1 removed"}},
		"a provider, destroy":   {want: noCloud, opt: Options{Destroy: true}, removed: []string{"provider.cloud"}, steps: []string{"delete build/" + buildID(1) + " destroy", "forget node/0000000001 removed", "forget node/0000000002 removed", "forget provider/cloud nothing-left", "forget upload/1 removed", "unregister node/0000000003 destroy"}},
		"a provider, refresh":   {want: noCloud, opt: Options{RefreshOnly: true}, removed: []string{"provider.cloud"}},
		"an image":              {want: noImage, removed: []string{"diskimage.debian", "provider.cloud"}, steps: []string{"forget build/" + buildID(1) + " removed", "forget node/0000000001 removed", "forget node/0000000002 removed", "forget provider/cloud nothing-left", "forget upload/1 removed"}},
		"an image of zuul":      {want: noImage, removed: []string{"zuul_image.debian", "provider.cloud.pool.main"}, steps: []string{"delete build/" + buildID(1) + " image-removed", "forget node/0000000001 removed", "forget node/0000000002 removed", "forget provider/cloud nothing-left", "forget upload/1 removed"}},
		"a static node":         {want: noStatic, removed: []string{"provider.lab.pool.main.node.metal"}, steps: []string{"unregister node/0000000003 removed"}},
		"without a listing":     {want: noPool, removed: []string{"provider.cloud.pool.main"}, change: func(o *Observed) { delete(o.Providers, "cloud") }, steps: []string{"forget node/0000000001 removed", "forget node/0000000002 removed", "delete upload/1 image-removed"}},
		"with a failed listing": {want: noPool, removed: []string{"provider.cloud.pool.main"}, change: func(o *Observed) { o.Providers["cloud"] = ProviderView{Err: "no route"} }},
		"a node in use": {want: noPool, removed: []string{"provider.cloud.pool.main"}, change: func(o *Observed) { o.Records.Nodes[0].State = resources.StateInUse },
			steps: []string{"forget node/0000000002 removed"}, note: "node 0000000001 is in-use and is forgotten when it is returned"},
		"a used node and a held one": {want: noPool, removed: []string{"provider.cloud.pool.main"},
			change: func(o *Observed) {
				o.Records.Nodes[0].State, o.Records.Nodes[1].State = resources.StateUsed, resources.StateHold
			},
			steps: []string{"forget node/0000000001 removed", "forget node/0000000002 removed", "delete upload/1 image-removed"}},
		"unfinished and failed nodes": {want: noPool, removed: []string{"provider.cloud.pool.main"},
			change: func(o *Observed) {
				o.Records.Nodes[0].State, o.Records.Nodes[1].State = resources.StateBuilding, resources.StateFailed
			},
			steps: []string{"delete node/0000000001 pool-removed", "delete node/0000000002 failed", "delete upload/1 image-removed"}},
		"a lost node, and one without tags after an interrupted run": {want: noPool, removed: []string{"provider.cloud.pool.main"},
			change: func(o *Observed) {
				view := o.Providers["cloud"]
				view.Instances = view.Instances[1:]
				view.Instances[0].Marks = resources.OwnerTags{}
				o.Providers["cloud"] = view
			},
			steps: []string{"forget node/0000000001 lost", "forget node/0000000002 removed", "delete upload/1 image-removed"}},
		"a server of another owner": {want: noPool, removed: []string{"provider.cloud.pool.main"},
			change: func(o *Observed) { o.Providers["cloud"].Instances[0].Marks.Installation = "other" },
			steps:  []string{"forget node/0000000001 lost", "forget node/0000000002 removed", "delete upload/1 image-removed"}},
		"a node of a pending request": {want: noPool, removed: []string{"provider.cloud.pool.main"},
			change: func(o *Observed) {
				o.Records.Nodes[0].Request = "0000000009"
				o.Records.Requests = []*resources.Request{{ID: "0000000009", State: resources.StateFulfilled, Nodes: []string{"0000000001"}, Labels: []string{"small"},
					Ready: o.Now, StateTime: o.Now, Placement: resources.Placement{Provider: "cloud", Pool: "main"}}}
			},
			steps: []string{"forget node/0000000002 removed"}},
		"a provider of a Nodepool launcher": {want: noCloud, removed: []string{"provider.cloud"},
			change: func(o *Observed) {
				o.Shared = true
				o.RegisteredPools = []resources.RegisteredPool{{Provider: "cloud", Pool: "main", Program: "nodepool-launcher 11", Host: "nl01"}}
			},
			problem: "nodepool-launcher 11 on nl01 serves the provider"},
		"a driver that cannot remove tags": {want: noCloud, removed: []string{"provider.cloud"},
			change: func(o *Observed) {
				view := o.Providers["cloud"]
				view.CannotRelease = true
				o.Providers["cloud"] = view
			},
			problem: "its driver cannot remove their ownership tags"},
	} {
		t.Run(name, func(t *testing.T) {
			seen := settled()
			seen.Records.Providers = []*resources.ProviderRecord{{Name: "cloud", Driver: "openstack"}}
			seen = inCloud(seen)
			if test.change != nil {
				test.change(&seen)
			}
			want := test.want
			want.Removed = removed(t, test.removed...)
			p := Compute(want, seen, test.opt)
			var got []string
			for _, s := range p.Steps {
				if s.Removes() || s.Action == ActionForget {
					got = append(got, string(s.Action)+" "+s.Record.String()+" "+string(s.Reason))
				}
				if s.Releases() && s.External == "" && s.Thing != ThingBuild {
					t.Errorf("%s does not name its object", s.ID)
				}
			}
			slices.Sort(got)
			slices.Sort(test.steps)
			if !slices.Equal(got, test.steps) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(test.steps, "\n  "))
			}
			if test.note != "" && !slices.ContainsFunc(p.Notes, func(n Note) bool { return strings.Contains(n.Text, test.note) }) {
				t.Errorf("no note contains %q: %v", test.note, p.Notes)
			}
			if has := slices.ContainsFunc(p.Problems, func(q Problem) bool { return test.problem != "" && strings.Contains(q.Text, test.problem) }); has != (test.problem != "") || len(p.Problems) > 1 {
				t.Errorf("problems: %v", p.Problems)
			}
		})
	}
}
