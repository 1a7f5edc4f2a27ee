package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/resources"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func ptr(n int64) *int64 { return &n }

// fleet is a small configuration: one image, one label, one pool, one static node.
func fleet() resources.Desired {
	return resources.Desired{
		Settings: resources.Settings{LeakLimit: 10, LeakSightings: time.Minute},
		Labels:   []resources.Label{{Name: "small", MinReady: 2}},
		Images: []resources.Image{{Name: "debian", Kind: resources.DiskImage, Builder: "exec", Keep: 2,
			RebuildAge: 24 * time.Hour, Hashes: resources.Hashes{"v1:image"}, Static: map[string]string{"elements": "vm"}}},
		Providers: []resources.Provider{
			{Name: "cloud", Driver: "openstack", Pools: []resources.Pool{{Name: "main", Limits: resources.Limits{MaxServers: ptr(4)}, Offers: []resources.Offer{
				{Label: "small", Image: resources.ImageRef{Kind: resources.DiskImage, Name: "debian"}, Hashes: resources.Hashes{"v1:offer"},
					Static: map[string]string{"flavor": "medium"}}}}}},
			{Name: "lab", Driver: "static", Pools: []resources.Pool{{Name: "main", Nodes: []resources.StaticNode{
				{Name: "metal", Labels: []string{"metal"}, Slots: 1, Hashes: resources.Hashes{"v1:metal"}}}}}},
		},
	}
}

// settled is the observed state of the fleet when it matches the desired state.
func settled() Observed {
	o := empty()
	o.Records.Builds = []*resources.Build{{ID: buildID(1), Image: "debian", Kind: resources.DiskImage, State: resources.StateReady,
		StateTime: now.Add(-time.Hour), Hash: "v1:image", Files: []resources.ImageFile{{Format: "qcow2", Name: "debian-" + buildID(1) + ".qcow2"}}}}
	o.Records.Uploads = []*resources.Upload{{ID: "1", Image: "debian", Build: buildID(1), Provider: "cloud", State: resources.StateReady,
		StateTime: now.Add(-time.Hour), Format: "qcow2", ExternalID: "image-1"}}
	o.Records.Nodes = []*resources.Node{readyNode("0000000001"), readyNode("0000000002"),
		{ID: "0000000003", State: resources.StateReady, Provider: "lab", Pool: "main", Labels: []string{"metal"}, Hash: "v1:metal",
			Static: true, Hostname: "metal"}}
	o.Files = []ImageFile{{Name: "debian-" + buildID(1) + ".qcow2"}}
	view := o.Providers["cloud"]
	view.Instances = []resources.Instance{instance("0000000001"), instance("0000000002")}
	view.Images = []resources.RemoteImage{{ID: "image-1", Status: resources.StatusReady,
		Marks: resources.OwnerTags{Installation: "here", Kind: resources.KindUpload, ID: "1"}}}
	o.Providers["cloud"] = view
	return o
}

func empty() Observed {
	return Observed{Now: now, Installation: "here", Files: []ImageFile{}, Formats: map[string]string{"cloud": "qcow2"},
		Providers: map[string]ProviderView{"cloud": {ListedAt: now, Quota: unlimited()}, "lab": {ListedAt: now, Quota: unlimited()}}}
}

func unlimited() resources.Quota {
	u := int64(resources.Unlimited)
	return resources.Quota{Limit: resources.ResourceAmounts{Instances: u, Cores: u, RAM: u, Volumes: u, VolumeGB: u, Addresses: u}}
}

func buildID(n int) string { return fmt.Sprintf("%032x", n) }

func readyNode(id string) *resources.Node {
	return &resources.Node{ID: id, State: resources.StateReady, StateTime: now.Add(-time.Hour), Provider: "cloud", Pool: "main",
		Labels: []string{"small"}, Hash: "v1:offer", ExternalID: "server-" + id, Upload: "1", Resources: resources.ResourceAmounts{Instances: 1}}
}

func instance(id string) resources.Instance {
	return resources.Instance{ID: "server-" + id, Name: "np" + id, Status: resources.StatusReady,
		Marks: resources.OwnerTags{Installation: "here", Kind: resources.KindNode, ID: id}}
}

// lines returns the steps, problems and notes of a plan, one per line, after an error if a step is invalid.
func lines(p Plan) string {
	var b strings.Builder
	b.WriteString(foreignField(p.Steps))
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "%s %s: %s", s.Action, s.Address, s.Reason)
		if s.Record.ID != "" {
			fmt.Fprintf(&b, " [%s]", s.Record)
		}
		for _, need := range s.Needs {
			fmt.Fprintf(&b, " needs(%s)", need)
		}
		for _, after := range s.After {
			fmt.Fprintf(&b, " after(%s)", after)
		}
		b.WriteString("\n")
	}
	for _, problem := range p.Problems {
		fmt.Fprintf(&b, "problem %s: %s\n", problem.Address, problem.Text)
	}
	for _, n := range p.Notes {
		fmt.Fprintf(&b, "note %s %s\n", n.Code, n.Address)
	}
	return b.String()
}

func TestCompute(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*resources.Desired, *Observed, *Options)
		want   string
	}{
		"a settled fleet needs nothing": {
			change: func(*resources.Desired, *Observed, *Options) {},
		},
		"an empty world gets everything in order": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) { *o = empty() },
			want: `register provider.lab.pool.main.node.metal: new-static-node
build diskimage.debian: no-build
upload provider.cloud.image.debian: not-uploaded needs(build diskimage.debian)
launch provider.cloud.pool.main.label.small: below-min-ready needs(upload provider.cloud.image.debian)
launch provider.cloud.pool.main.label.small: below-min-ready needs(upload provider.cloud.image.debian)
`},
		"a server deleted behind our back is forgotten and replaced": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				v := o.Providers["cloud"]
				v.Instances = v.Instances[1:]
				o.Providers["cloud"] = v
			},
			want: `forget node.0000000001: lost [node/0000000001]
launch provider.cloud.pool.main.label.small: below-min-ready
`},
		"what another provider of the same project has a record of is no leak": {
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				d.Providers = append([]resources.Provider{{Name: "again", Driver: "openstack", Pools: []resources.Pool{{Name: "main"}}}}, d.Providers...)
				v := o.Providers["cloud"]
				v.Leftovers = []resources.Leftover{{Type: "floating_ip", ID: "ip-1", InUse: true, Marks: v.Instances[0].Marks}}
				o.Providers["cloud"], o.Providers["again"] = v, v
				seen := now.Add(-time.Hour) // nor do repeated sightings make it a leak
				for _, i := range v.Instances {
					o.Records.Sightings = append(o.Records.Sightings, &resources.Sighting{Provider: "again", Type: "server", External: i.ID, First: seen, Last: now})
				}
			},
		},
		"what was made for a server deleted behind our back goes with its record": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				v := o.Providers["cloud"]
				v.Instances = v.Instances[1:]
				lost := resources.OwnerTags{Installation: "here", Kind: resources.KindNode, ID: "0000000001"}
				kept := resources.OwnerTags{Installation: "here", Kind: resources.KindNode, ID: "0000000002"}
				v.Leftovers = []resources.Leftover{{Type: "floating_ip", ID: "ip-2", Marks: kept, InUse: true},
					{Type: "volume", ID: "volume-1", Marks: lost, InUse: true}, {Type: "floating_ip", ID: "ip-1", Marks: lost},
					{Type: "port", ID: "port-1", Marks: lost, InUse: true, Server: v.Instances[0].ID}, // in use by another server
					{Type: "port", ID: "port-2", Marks: lost, InUse: true, Server: "a server that has gone"},
					{Type: "port", ID: "port-3", Marks: lost, InUse: true}} // a router uses it
				o.Providers["cloud"] = v
			},
			want: `delete provider.cloud.floating_ip.ip-1: orphaned
delete provider.cloud.port.port-2: orphaned
forget node.0000000001: lost [node/0000000001] needs(delete provider.cloud.floating_ip.ip-1) needs(delete provider.cloud.port.port-2)
launch provider.cloud.pool.main.label.small: below-min-ready
`},
		"a server newer than the listing is not lost": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				v := o.Providers["cloud"]
				v.Instances = v.Instances[1:]
				o.Providers["cloud"] = v
				o.Records.Nodes[0].StateTime = now.Add(time.Second)
			},
		},
		"a provider that does not answer gets no steps, and its nodes count": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				o.Providers["cloud"] = ProviderView{Err: "timeout"}
			},
			want: "note deferred provider.cloud\n",
		},
		"wrong credentials are a problem": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				o.Providers["cloud"] = ProviderView{Err: "401", Rejected: true}
			},
			want: "problem provider.cloud: 401\n",
		},
		"a changed static attribute replaces ready nodes, new before old": {
			change: func(d *resources.Desired, _ *Observed, _ *Options) {
				d.Providers[0].Pools[0].Offers[0].Hashes = resources.Hashes{"v1:other"}
			},
			want: `launch provider.cloud.pool.main.label.small: config-changed
launch provider.cloud.pool.main.label.small: config-changed
delete node.0000000001: config-changed [node/0000000001] needs(launch provider.cloud.pool.main.label.small #1)
delete node.0000000002: config-changed [node/0000000002] needs(launch provider.cloud.pool.main.label.small #2)
`},
		"the old node stays while a launch under way may be its successor": {
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				d.Providers[0].Pools[0].Offers[0].Hashes = resources.Hashes{"v1:other"}
				n := o.Records.Nodes[1]
				n.State, n.Hash = resources.StateBuilding, "v1:other"
			},
			want: `launch node.0000000002: unfinished [node/0000000002]
launch provider.cloud.pool.main.label.small: config-changed
delete node.0000000001: config-changed [node/0000000001] needs(launch provider.cloud.pool.main.label.small #1)
`},
		"it waits for the running launch without a step": {
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				d.Providers[0].Pools[0].Offers[0].Hashes = resources.Hashes{"v1:other"}
				d.Labels[0].MinReady = 1
				n := o.Records.Nodes[1]
				n.State, n.Hash = resources.StateBuilding, "v1:other"
				o.Busy = map[resources.Key]bool{n.Key(): true}
			},
			want: "delete node.0000000001: config-changed [node/0000000001] needs(launch node 0000000002)\n",
		},
		"a node above min_ready and the launches under way does not wait": {
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				d.Providers[0].Pools[0].Offers[0].Hashes = resources.Hashes{"v1:other"}
				d.Labels[0].MinReady = 1
				building := readyNode("0000000004")
				building.State, building.Hash = resources.StateBuilding, "v1:other"
				o.Records.Nodes = append(o.Records.Nodes, building)
				o.Busy = map[resources.Key]bool{building.Key(): true}
			},
			want: `delete node.0000000001: config-changed [node/0000000001] needs(launch node 0000000004)
delete node.0000000002: config-changed [node/0000000002]
`},
		"where there is no room the old node goes first": {
			change: func(d *resources.Desired, _ *Observed, _ *Options) {
				d.Providers[0].Pools[0].Offers[0].Hashes = resources.Hashes{"v1:other"}
				d.Providers[0].Pools[0].MaxServers = ptr(2)
			},
			want: `delete node.0000000001: config-changed [node/0000000001]
launch provider.cloud.pool.main.label.small: config-changed needs(delete node 0000000001)
delete node.0000000002: config-changed [node/0000000002]
launch provider.cloud.pool.main.label.small: config-changed needs(delete node 0000000002)
`},
		"a hash of another version replaces nothing": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) { o.Records.Nodes[0].Hash = "v9:whatever" },
		},
		"an old image is built again, and the old one stays until the new one is there": {
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				o.Records.Builds[0].StateTime = now.Add(-25 * time.Hour)
				o.Records.Nodes[0].Upload, o.Records.Nodes[1].Upload = "", ""
				d.Images[0].Keep = 1
			},
			want: `build diskimage.debian: rebuild-age
upload provider.cloud.image.debian: not-uploaded needs(build diskimage.debian)
delete provider.cloud.image.debian: superseded [upload/1] needs(upload provider.cloud.image.debian)
delete diskimage.debian: superseded [build/00000000000000000000000000000001] needs(build diskimage.debian) needs(delete upload 1)
`},
		"an image that nodes run from stays": {
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				o.Records.Builds[0].StateTime = now.Add(-25 * time.Hour)
				d.Images[0].Keep = 1
			},
			want: `build diskimage.debian: rebuild-age
upload provider.cloud.image.debian: not-uploaded needs(build diskimage.debian)
`},
		"a removed provider is drained, cleared and forgotten": {
			change: func(d *resources.Desired, o *Observed, opt *Options) {
				opt.AllowDestroy = AllowAll
				d.Providers = d.Providers[1:]
				d.Labels[0].MinReady = 0
				d.Images = nil
				o.Records.Providers = []*resources.ProviderRecord{{Name: "cloud", Driver: "openstack"}}
			},
			want: `delete node.0000000001: provider-removed [node/0000000001]
delete node.0000000002: provider-removed [node/0000000002]
delete provider.cloud.image.debian: provider-removed [upload/1] needs(delete node 0000000001) needs(delete node 0000000002)
forget provider.cloud: nothing-left [provider/cloud] needs(delete node 0000000001) needs(delete node 0000000002) needs(delete upload 1)
delete diskimage.debian: image-removed [build/00000000000000000000000000000001] needs(delete upload 1)
`},
		"destroy leaves nothing": {
			change: func(_ *resources.Desired, o *Observed, opt *Options) {
				opt.Destroy = true
				o.Records.Nodes[0].State = resources.StateInUse
				v := o.Providers["cloud"]
				v.Leftovers = []resources.Leftover{{Type: "floating_ip", ID: "f", Marks: resources.OwnerTags{Installation: "here", Kind: resources.KindNode, ID: "99"}}}
				o.Providers["cloud"] = v
			},
			want: `delete node.0000000001: destroy [node/0000000001]
delete node.0000000002: destroy [node/0000000002]
delete provider.cloud.image.debian: destroy [upload/1] needs(delete node 0000000001) needs(delete node 0000000002)
delete diskimage.debian: destroy [build/00000000000000000000000000000001] needs(delete upload 1)
delete provider.cloud.floating_ip.f: destroy
unregister provider.lab.pool.main.node.metal: destroy [node/0000000003]
problem node.0000000001: node 0000000001 is in-use, and the plan removes it
`},
		"prevent_destroy outlives its block": {
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				d.Images = nil
				d.Providers[0].Pools[0].Offers = nil
				d.Labels[0].MinReady = 0
				o.Records.Nodes = o.Records.Nodes[2:]
				o.Providers["cloud"] = ProviderView{ListedAt: now, Images: o.Providers["cloud"].Images}
				o.Records.Images = []*resources.ImageRecord{{Name: "debian", PreventDestroy: true}}
			},
			want: `delete provider.cloud.image.debian: image-removed [upload/1]
delete diskimage.debian: image-removed [build/00000000000000000000000000000001] needs(delete upload 1)
problem npctl: the configuration would remove 2 of 3 objects (provider.cloud.image.debian, diskimage.debian), and more than half needs consent
problem provider.cloud.image.debian: the plan deletes upload provider.cloud.image.debian, and image debian has prevent_destroy
problem diskimage.debian: the plan deletes build diskimage.debian, and image debian has prevent_destroy
`},
		"a leak is noted first and deleted when seen again": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				v := o.Providers["cloud"]
				v.Instances = append(v.Instances, instance("0000000077"), instance("0000000078"))
				o.Providers["cloud"] = v
				o.Records.Sightings = []*resources.Sighting{{Provider: "cloud", Type: "server", External: "server-0000000077",
					First: now.Add(-2 * time.Minute), Count: 1}}
			},
			want: `delete provider.cloud.server.server-0000000077: leaked
note leak-sighted provider.cloud.server.server-0000000078
`},
		"look-alikes are ignored": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				v := o.Providers["cloud"]
				v.Instances = append(v.Instances, resources.Instance{ID: "x", Name: "np0000000001"},
					resources.Instance{ID: "y", Marks: resources.OwnerTags{Installation: "elsewhere", ID: "0000000001"}})
				o.Providers["cloud"] = v
			},
			want: `note look-alike provider.cloud.server.x
note look-alike provider.cloud.server.y
note unmanaged provider.cloud
`},
		"other servers are only counted": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				v := o.Providers["cloud"]
				v.Instances = append(v.Instances, resources.Instance{ID: "x", Name: "build-server"})
				o.Providers["cloud"] = v
			},
			want: "note unmanaged provider.cloud\n",
		},
		"an interrupted import of an image goes on": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) { importing(o, resources.OwnerTags{}) },
			want:   "import provider.cloud.image.debian: unfinished [upload/1]\n",
		},
		"an interrupted import of an image ends if another npctl has it": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				importing(o, resources.OwnerTags{Installation: "elsewhere", Kind: resources.KindUpload, ID: "1"})
			},
			want: "forget provider.cloud.image.debian: not-ours [upload/1]\n",
		},
		"an interrupted launch goes on": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				o.Records.Nodes[1].State = resources.StateBuilding
			},
			want: "launch node.0000000002: unfinished [node/0000000002]\n",
		},
		"a launch continues after a failed attempt": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				n := o.Records.Nodes[1]
				n.State, n.Attempt, n.Error = resources.StateBuilding, 1, "no valid host"
			},
			want: "launch node.0000000002: attempt-failed [node/0000000002]\n",
		},
		"a launch continues after an attempt without a response": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				n := o.Records.Nodes[1]
				n.State, n.Attempt, n.UnansweredAttempts, n.Error = resources.StateBuilding, 1, 1, "no answer within 1m0s"
			},
			want: "launch node.0000000002: unanswered [node/0000000002]\n",
		},
		"the server of a failed attempt is deleted because it failed, and others because an earlier step did not delete them": {
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				d.Labels[0].MinReady = 0
				for _, n := range o.Records.Nodes[:2] {
					n.State = resources.StateDeleting
				}
				o.Records.Nodes[0].Error = "no valid host"
			},
			want: "delete node.0000000001: failed [node/0000000001]\ndelete node.0000000002: unfinished [node/0000000002]\n",
		},
		"two instances of one node: the recorded one stays": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				v := o.Providers["cloud"]
				twin := instance("0000000001")
				twin.ID = "server-late"
				v.Instances = append(v.Instances, twin)
				o.Providers["cloud"] = v
			},
			want: "note leak-sighted provider.cloud.server.server-late\n",
		},
		"a second instance of a node is deleted when it is seen again": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				v := o.Providers["cloud"]
				twin := instance("0000000001")
				twin.ID = "server-late"
				v.Instances = append(v.Instances, twin)
				o.Providers["cloud"] = v
				o.Records.Sightings = []*resources.Sighting{{Provider: "cloud", Type: "server", External: "server-late", First: now.Add(-2 * time.Minute), Last: now}}
			},
			want: "delete provider.cloud.server.server-late: duplicate\n",
		},
		"quota is respected and said": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				o.Records.Nodes = o.Records.Nodes[2:]
				v := o.Providers["cloud"]
				v.Instances = nil
				v.Quota.Limit.Instances, v.Quota.Used.Instances = 5, 4
				o.Providers["cloud"] = v
			},
			want: `launch provider.cloud.pool.main.label.small: below-min-ready
note below-min-ready label.small
`},
		"a pool above max_servers loses its oldest ready node": {
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				d.Providers[0].Pools[0].MaxServers = ptr(1)
				d.Labels[0].MinReady = 1
				o.Records.Nodes[1].StateTime = now.Add(-2 * time.Hour)
			},
			want: "delete node.0000000002: above-max-servers [node/0000000002]\n",
		},
		"unknown flavor is a problem with near matches": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				*o = empty()
				v := o.Providers["cloud"]
				v.Offers = map[OfferKey]OfferView{{"main", "small"}: {Problems: []resources.Problem{{Attribute: "flavor",
					Value: "medum", Detail: "there is no such flavor", Suggestions: []string{"medium"}}}}}
				o.Providers["cloud"] = v
			},
			want: `register provider.lab.pool.main.node.metal: new-static-node
build diskimage.debian: no-build
upload provider.cloud.image.debian: not-uploaded needs(build diskimage.debian)
problem provider.cloud.pool.main.label.small: flavor = "medum": there is no such flavor
`},
		"a number in a problem has no quotes": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				v := o.Providers["cloud"]
				v.Offers = map[OfferKey]OfferView{{"main", "small"}: {Problems: []resources.Problem{{Attribute: "ram", Value: "9999", Detail: "too much"}}}}
				o.Providers["cloud"] = v
			},
			want: "problem provider.cloud.pool.main.label.small: ram = 9999: too much\n",
		},
		"files of an image that cannot be read are a problem of that image": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				o.InputErrors = map[string]string{"debian": "read elements/mine: no such directory"}
			},
			want: "problem diskimage.debian: read elements/mine: no such directory\n",
		},
		"a mistake in an offer ends none of its nodes": {
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				d.Providers[0].Pools[0].Offers[0].Hashes = resources.Hashes{"v1:other"}
				v := o.Providers["cloud"]
				v.Offers = map[OfferKey]OfferView{{"main", "small"}: {Problems: []resources.Problem{{Attribute: "flavor", Value: "medum"}}}}
				o.Providers["cloud"] = v
			},
			want: "problem provider.cloud.pool.main.label.small: flavor = \"medum\": \n",
		},
		"-allow-destroy=none refuses": {
			change: func(d *resources.Desired, _ *Observed, opt *Options) {
				d.Providers[0].Pools[0].MaxServers, d.Labels[0].MinReady = ptr(1), 1
				opt.AllowDestroy = AllowNone
			},
			want: `delete node.0000000001: above-max-servers [node/0000000001]
problem node.0000000001: the plan deletes node node.0000000001, and -allow-destroy=none forbids that
`},
		"-target keeps what the target needs": {
			change: func(_ *resources.Desired, o *Observed, opt *Options) {
				*o = empty()
				opt.Targets = []Address{"provider.cloud.image.debian"}
			},
			want: `build diskimage.debian: no-build
upload provider.cloud.image.debian: not-uploaded needs(build diskimage.debian)
note targeted 
`},
		"-exclude leaves out what needs the excluded": {
			change: func(_ *resources.Desired, o *Observed, opt *Options) {
				*o = empty()
				opt.Excludes = []Address{"diskimage.debian"}
			},
			want: "register provider.lab.pool.main.node.metal: new-static-node\nnote excluded \n",
		},
		"-replace of a node": {
			change: func(_ *resources.Desired, _ *Observed, opt *Options) { opt.Replace = []Address{"node.0000000001"} },
			want: `launch provider.cloud.pool.main.label.small: requested
delete node.0000000001: requested [node/0000000001] needs(launch provider.cloud.pool.main.label.small #1)
`},
		"-replace of nothing is a problem": {
			change: func(_ *resources.Desired, _ *Observed, opt *Options) { opt.Replace = []Address{"node.7"} },
			want:   "problem node.7: no object that can be replaced has this address\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, o, opt := fleet(), settled(), Options{}
			test.change(&d, &o, &opt)
			if diff := cmp.Diff(test.want, lines(Compute(d, o, opt))); diff != "" {
				t.Errorf("plan differs (-want +got):\n%s", diff)
			}
		})
	}
}

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

func TestRecordsOfLockHolderAreSkipped(t *testing.T) {
	var r Records
	build := &resources.Build{ID: strings.Repeat("b", 32), Image: "debian", Kind: resources.DiskImage, State: resources.StateBuilding}
	upload := &resources.Upload{ID: "0000000001", Image: "other", Provider: "one", State: resources.StateUploading}
	launched := &resources.Node{ID: "0000000001", Provider: "one", State: resources.StateBuilding}
	ready := &resources.Node{ID: "0000000002", Provider: "one", State: resources.StateReady}
	for i, record := range []resources.Record{build, upload, launched, ready} {
		r.Put(record, uint64(i+1))
	}
	before := Observed{Records: r}
	if got := markLockHolderBusy(before); len(got.Busy) != 0 {
		t.Errorf("without a worker %v are busy", got.Busy)
	}
	before.Busy = map[resources.Key]bool{}
	before.LockHolder = &LockHolder{Operation: "apply", Who: "ann@here"}
	got := markLockHolderBusy(before)
	for _, record := range []resources.Record{build, upload, launched} {
		if !got.Busy[record.Key()] {
			t.Errorf("%s is not busy", record.Key())
		}
	}
	if got.Busy[ready.Key()] || len(before.Busy) > 0 {
		t.Errorf("busy: %v, before: %v", got.Busy, before.Busy)
	}
	c := newWorld(resources.Desired{}, got, Options{})
	for image, want := range map[string]bool{"debian": true, "other": true, "third": false} {
		if c.workedOn(image) != want {
			t.Errorf("the worker is at %s: %v", image, !want)
		}
	}
	p := Compute(resources.Desired{}, got, Options{})
	if p.InProgress == nil || len(p.Notes) == 0 || !strings.Contains(p.Notes[0].Text, "ann@here") {
		t.Errorf("got %v, %v", p.InProgress, p.Notes)
	}
	for _, s := range p.Steps {
		if s.Record == build.Key() || s.Record == upload.Key() || s.Record == launched.Key() {
			t.Errorf("planned: %s", s.ID)
		}
	}
}

func TestUnchangedCountsExistingObjects(t *testing.T) {
	if got := Compute(fleet(), empty(), Options{}).Unchanged.Addresses(); len(got) > 0 {
		t.Errorf("before anything exists, %v is unchanged", got)
	}
	want := []Address{"diskimage.debian", "node.0000000001", "node.0000000002", "provider.cloud.image.debian", "provider.lab.pool.main.node.metal"}
	p := Compute(fleet(), settled(), Options{})
	if diff := cmp.Diff(want, p.Unchanged.Addresses()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	small := fleet()
	small.Providers[0].Pools[0].MaxServers = ptr(1) // one of two idle nodes goes
	if got := Compute(small, settled(), Options{}).Unchanged.Addresses(); len(got) != len(want)-1 {
		t.Errorf("%v is unchanged, want all but a node", got)
	}
}

// importing makes the upload of debian an unfinished import of an image with these ownership tags.
func importing(o *Observed, marks resources.OwnerTags) {
	u := o.Records.Uploads[0]
	u.State, u.Importing, u.ExternalID = resources.StateUploading, true, "golden"
	v := o.Providers["cloud"]
	v.Images = nil
	v.Imports = map[ImportKey]ImportView{{Kind: resources.KindUpload, ID: "golden"}: {Found: true,
		ExistingObject: resources.ExistingObject{Image: resources.RemoteImage{ID: "golden", Marks: marks, Status: resources.StatusReady}}}}
	o.Providers["cloud"] = v
}
