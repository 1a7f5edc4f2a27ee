package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/resources"
)

// idle is the settled fleet without min_ready, with one ready node for each ID.
func idle(ids ...string) (resources.Desired, Observed) {
	d, o := fleet(), settled()
	d.Labels[0].MinReady = 0
	o.Records.Nodes, o.Providers["cloud"] = o.Records.Nodes[2:], withInstances(o.Providers["cloud"])
	for _, id := range ids {
		addReady(&o, id)
	}
	return d, o
}

func withInstances(v ProviderView, instances ...resources.Instance) ProviderView {
	v.Instances = instances
	return v
}

func addReady(o *Observed, id string) *resources.Node {
	n := readyNode(id)
	o.Records.Nodes = append(o.Records.Nodes, n)
	v := o.Providers["cloud"]
	v.Instances = append(v.Instances, instance(id))
	o.Providers["cloud"] = v
	return n
}

func request(id string, labels ...string) *resources.Request {
	return &resources.Request{ID: id, State: resources.StateRequested, Created: now.Add(-time.Second), StateTime: now.Add(-time.Second),
		Labels: labels, Priority: 200}
}

// answers returns the steps about requests and nodes, one per line.
func answers(p Plan) string {
	var b strings.Builder
	for _, s := range p.Steps {
		if s.Thing != ThingRequest && s.Thing != ThingNode {
			continue
		}
		fmt.Fprintf(&b, "%s", s.ID)
		if s.Kind == KindServe {
			fmt.Fprintf(&b, " at %s/%s %q", s.Provider, s.Pool, s.Nodes)
		}
		for _, f := range s.Evidence {
			if s.Kind == KindDecline {
				fmt.Fprintf(&b, " (%s: %s)", f.Name, f.Value)
			}
		}
		b.WriteString("\n")
	}
	for _, n := range p.Notes {
		if n.Code == "waiting" {
			fmt.Fprintf(&b, "%s waits: %s\n", n.Address, n.Text)
		}
	}
	return b.String()
}

func TestRequests(t *testing.T) {
	for name, test := range map[string]struct {
		ready  []string
		change func(*resources.Desired, *Observed, *Options)
		want   string

		relist   []string
		problems int
	}{
		"a ready node is given at once": {
			ready: []string{"0000000011", "0000000012"},
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				o.Records.Requests = []*resources.Request{request("1", "small")}
			},
			want: `serve request 1 at cloud/main ["0000000011"]
`},
		"a ready node of an old listing waits for a newer one": {
			ready: []string{"0000000011"},
			change: func(_ *resources.Desired, o *Observed, opt *Options) {
				o.Records.Requests, o.MaxListingAge, opt.Explain = []*resources.Request{request("1", "small"), request("2", "metal")}, time.Minute, true
				v := o.Providers["cloud"]
				v.ListedAt = now.Add(-2 * time.Minute)
				o.Providers["cloud"] = v
			},
			want: `serve request 2 at lab/main ["0000000003"]
request.1 waits: cloud/main: the newest listing of the provider is too old to hand out its ready nodes
`,
			relist: []string{"cloud"}},
		"a listing that is at most as old as allowed before the request is new enough": {
			ready: []string{"0000000011"},
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				o.Records.Requests, o.MaxListingAge = []*resources.Request{request("1", "small")}, time.Minute
				v := o.Providers["cloud"]
				v.ListedAt = now.Add(-61 * time.Second)
				o.Providers["cloud"] = v
			},
			want: `serve request 1 at cloud/main ["0000000011"]
`},
		"what is missing is launched": {
			ready: []string{"0000000011"},
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				o.Records.Requests = []*resources.Request{request("1", "small", "small", "small")}
			},
			want: `serve request 1 at cloud/main ["0000000011" "" ""]
launch request 1 #2
launch request 1 #3
`},
		"a machine that exists is given": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				o.Records.Requests = []*resources.Request{request("1", "metal")}
			},
			want: `serve request 1 at lab/main ["0000000003"]
`},
		"the most urgent one gets the last node": {
			ready: []string{"0000000011"},
			change: func(d *resources.Desired, o *Observed, opt *Options) {
				d.Providers[0].Pools[0].MaxServers = ptr(1)
				late, urgent := request("1", "small"), request("2", "small")
				urgent.Priority = 100
				o.Records.Requests = []*resources.Request{late, urgent}
				opt.Explain = true
			},
			want: `serve request 2 at cloud/main ["0000000011"]
request.1 waits: cloud/main: max_servers is 1 and 1 are taken
`},
		"what no pool offers fails with the reason": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				o.Records.Requests = []*resources.Request{request("1", "large")}
			},
			want: `fail request 1 (pools: none offers large)
`},
		"what no pool can hold fails with the reasons": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				o.Records.Requests = []*resources.Request{request("1", "small", "small", "small", "small", "small")}
			},
			want: `fail request 1 (cloud/main: the request is too large: max_servers is 4 and 0 are taken)
`},
		"labels of two pools are not mixed": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				o.Records.Requests = []*resources.Request{request("1", "small", "metal")}
			},
			want: `fail request 1 (cloud/main: it has no label metal, or fewer machines than are asked for) (lab/main: it has no label small, or fewer machines than are asked for)
`},
		"it waits while the pool is full": {
			change: func(d *resources.Desired, o *Observed, opt *Options) {
				d.Providers[0].Pools[0].MaxServers = ptr(1)
				addReady(o, "0000000011").State = resources.StateInUse
				o.Records.Requests = []*resources.Request{request("1", "small")}
				opt.Explain = true
			},
			want: `request.1 waits: cloud/main: max_servers is 1 and 1 are taken
`},
		"it waits while the quota is used up": {
			change: func(_ *resources.Desired, o *Observed, opt *Options) {
				addReady(o, "0000000011").State = resources.StateInUse
				v := o.Providers["cloud"]
				v.Quota.Limit.Instances, v.Quota.Used.Instances = 2, 1
				o.Providers["cloud"] = v
				// launched since the listing, so not in the cloud's figures
				o.Records.Nodes = append(o.Records.Nodes, &resources.Node{ID: "0000000012", State: resources.StateInUse, Provider: "cloud", Pool: "main",
					Labels: []string{"small"}, StateTime: now.Add(time.Second)})
				o.Records.Requests = []*resources.Request{request("1", "small")}
				opt.Explain = true
			},
			want: `request.1 waits: cloud/main: quota: 0 instances left and 1 needed
`},
		"and is served when one is known to have gone since the listing": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				v := o.Providers["cloud"]
				v.Quota.Limit.Instances, v.Quota.Used.Instances = 1, 1
				v.Instances, v.DeletedInstances = []resources.Instance{instance("0000000099")}, map[string]bool{"server-0000000099": true}
				o.Providers["cloud"] = v
				o.Records.Requests = []*resources.Request{request("1", "small")}
			},
			want: `serve request 1 at cloud/main [""]
launch request 1 #1
`},
		"a small one passes a large one that has just begun to wait": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				addReady(o, "0000000011").State = resources.StateInUse
				o.Records.Requests = []*resources.Request{request("1", "small", "small", "small", "small"), request("2", "small")}
			},
			want: `serve request 2 at cloud/main [""]
launch request 2 #1
`},
		"and not one that has waited long": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				addReady(o, "0000000011").State = resources.StateInUse
				large := request("1", "small", "small", "small", "small")
				large.Created = now.Add(-reserveAfter)
				o.Records.Requests = []*resources.Request{large, request("2", "small")}
			},
		},
		"a pending request is fulfilled when its nodes are ready, in order": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				r := request("1", "small", "small")
				r.State, r.Placement = resources.StatePending, resources.Placement{Provider: "cloud", Pool: "main"}
				addReady(o, "0000000011").Request, addReady(o, "0000000012").Request = "1", "1"
				o.Records.Requests = []*resources.Request{r}
			},
			want: `serve request 1 at cloud/main ["0000000011" "0000000012"]
`},
		"a failed node makes its pool decline": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				r := request("1", "small")
				r.State, r.Placement = resources.StatePending, resources.Placement{Provider: "cloud", Pool: "main"}
				n := addReady(o, "0000000011")
				n.State, n.Request, n.Error = resources.StateFailed, "1", "no valid host"
				o.Records.Requests = []*resources.Request{r}
			},
			want: `fail request 1 (cloud/main: a node could not be launched: no valid host)
delete node 0000000011
`},
		"a node that is on its way is waited for": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				r := request("1", "small")
				r.State, r.Placement = resources.StatePending, resources.Placement{Provider: "cloud", Pool: "main"}
				n := addReady(o, "0000000011")
				n.State, n.Request = resources.StateBuilding, "1"
				o.Records.Requests, o.Busy = []*resources.Request{r}, map[resources.Key]bool{n.Key(): true}
			},
		},
		"nodes of a request that is gone are free again": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				addReady(o, "0000000011").Request = "1"
			},
			want: `free node 0000000011
`},
		"a deadline ends the waiting": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				r := request("1", "small")
				r.Deadline = now.Add(-time.Second)
				o.Records.Requests = []*resources.Request{r}
			},
			want: `fail request 1
`},
		"the nodes were not taken": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				r := request("1", "small")
				r.State, r.StateTime = resources.StateFulfilled, now.Add(-takeTimeout-time.Second)
				r.Placement = resources.Placement{Provider: "cloud", Pool: "main"}
				addReady(o, "0000000011").Request = "1"
				o.Records.Requests = []*resources.Request{r}
			},
			want: `fail request 1 (limit: 10m0s)
`},
		"what a tenant was promised counts before there are nodes": {
			change: func(d *resources.Desired, o *Observed, opt *Options) {
				opt.Explain = true
				d.Settings.TenantLimits = []resources.TenantLimit{{Tenant: "acme", Limits: resources.Limits{MaxServers: ptr(2)}}}
				promised, urgent := request("1", "small", "small"), request("2", "small")
				promised.State, promised.Placement = resources.StatePending, resources.Placement{Provider: "cloud", Pool: "main"}
				promised.Tenant, urgent.Tenant, urgent.Priority = "acme", "acme", promised.Priority-1
				o.Records.Requests = []*resources.Request{promised, urgent}
			},
			want: `launch request 1 #1
launch request 1 #2
request.2 waits: tenant acme: max_servers is 2 and 2 are taken
`},
		"what a tenant may still use is kept for its request that has waited long": {
			change: func(d *resources.Desired, o *Observed, opt *Options) {
				opt.Explain = true
				d.Settings.TenantLimits = []resources.TenantLimit{{Tenant: "acme", Limits: resources.Limits{MaxServers: ptr(2)}}}
				n := addReady(o, "0000000011")
				n.State, n.Tenant = resources.StateInUse, "acme"
				large, small := request("1", "small", "small"), request("2", "small")
				large.Tenant, small.Tenant, large.Created = "acme", "acme", now.Add(-reserveAfter)
				o.Records.Requests = []*resources.Request{large, small}
			},
			want: `request.1 waits: tenant acme: max_servers is 2 and 1 are taken
request.2 waits: the remaining capacity of tenant acme is reserved for a request that has waited longer
`},
		"a node on its way counts once of what its tenant was promised": {
			change: func(d *resources.Desired, o *Observed, opt *Options) {
				opt.Explain = true
				d.Settings.TenantLimits = []resources.TenantLimit{{Tenant: "acme", Limits: resources.Limits{MaxServers: ptr(3)}}}
				promised, more, most := request("1", "small", "small"), request("2", "small"), request("3", "small")
				promised.State, promised.Placement = resources.StatePending, resources.Placement{Provider: "cloud", Pool: "main"}
				promised.Tenant, more.Tenant, most.Tenant = "acme", "acme", "acme"
				n := readyNode("0000000011")
				n.State, n.ExternalID, n.Request, n.Tenant = resources.StateBuilding, "", "1", "acme"
				o.Records.Nodes = append(o.Records.Nodes, n)
				o.Busy = map[resources.Key]bool{n.Key(): true}
				o.Records.Requests = []*resources.Request{promised, more, most}
			},
			want: `serve request 2 at cloud/main [""]
launch request 1 #2
launch request 2 #1
request.3 waits: tenant acme: max_servers is 3 and 3 are taken
`},
		"cores that a tenant was promised count": {
			change: func(d *resources.Desired, o *Observed, opt *Options) {
				opt.Explain = true
				d.Settings.TenantLimits = []resources.TenantLimit{{Tenant: "acme", Limits: resources.Limits{MaxCores: ptr(3)}}}
				promised, urgent := request("1", "small"), request("2", "small")
				promised.State, promised.Placement = resources.StatePending, resources.Placement{Provider: "cloud", Pool: "main"}
				promised.Tenant, urgent.Tenant, urgent.Priority = "acme", "acme", promised.Priority-1
				v := o.Providers["cloud"]
				v.Offers = map[OfferKey]OfferView{{"main", "small"}: {ResolvedOffer: resources.ResolvedOffer{Resources: resources.ResourceAmounts{Cores: 2}}}}
				o.Providers["cloud"] = v
				o.Records.Requests = []*resources.Request{promised, urgent}
			},
			want: `launch request 1 #1
request.2 waits: tenant acme: max_cores is 3 and 2 are taken
`},
		"a tenant's limit is compared with the nodes of the pool that would serve": {
			change: func(d *resources.Desired, o *Observed, opt *Options) {
				opt.Explain = true
				d.Settings.TenantLimits = []resources.TenantLimit{{Tenant: "acme", Limits: resources.Limits{MaxCores: ptr(3)}}}
				d.Providers[0].Pools[0].MaxServers = ptr(1)
				spare := d.Providers[0].Pools[0]
				spare.Name, spare.Priority = "spare", 1
				d.Providers[0].Pools = append(d.Providers[0].Pools, spare)
				n := addReady(o, "0000000011")
				n.State, n.Tenant, n.Resources = resources.StateInUse, "acme", resources.ResourceAmounts{Cores: 1}
				v := o.Providers["cloud"]
				v.Offers = map[OfferKey]OfferView{
					{"main", "small"}:  {ResolvedOffer: resources.ResolvedOffer{Resources: resources.ResourceAmounts{Cores: 2}}},
					{"spare", "small"}: {ResolvedOffer: resources.ResolvedOffer{Resources: resources.ResourceAmounts{Cores: 3}}}}
				o.Providers["cloud"] = v
				o.Records.Requests = []*resources.Request{request("1", "small")}
				o.Records.Requests[0].Tenant = "acme"
			},
			want: "request.1 waits: tenant acme: max_cores is 3 and 1 are taken\n"},
		"volumes of a tenant count": {
			change: func(d *resources.Desired, o *Observed, opt *Options) {
				opt.Explain = true
				d.Settings.TenantLimits = []resources.TenantLimit{{Tenant: "acme", Limits: resources.Limits{MaxVolumes: ptr(1)}}, {Tenant: "umbrella", Limits: resources.Limits{MaxVolumeGB: ptr(50)}}}
				v := o.Providers["cloud"]
				v.Offers = map[OfferKey]OfferView{{"main", "small"}: {ResolvedOffer: resources.ResolvedOffer{Resources: resources.ResourceAmounts{Volumes: 1, VolumeGB: 30}}}}
				o.Providers["cloud"] = v
				for i, tenant := range []string{"acme", "umbrella"} {
					promised, urgent := request(strconv.Itoa(2*i+1), "small"), request(strconv.Itoa(2*i+2), "small")
					promised.State, promised.Placement = resources.StatePending, resources.Placement{Provider: "cloud", Pool: "main"}
					promised.Tenant, urgent.Tenant, urgent.Priority = tenant, tenant, promised.Priority-1
					o.Records.Requests = append(o.Records.Requests, promised, urgent)
				}
			},
			want: `launch request 1 #1
launch request 3 #1
request.2 waits: tenant acme: max_volumes is 1 and 1 are taken
request.4 waits: tenant umbrella: max_volume_gb is 50 and 30 are taken
`},
		"a request that is larger than what its tenant may have fails, and nothing is kept from other tenants": {
			change: func(d *resources.Desired, o *Observed, opt *Options) {
				opt.Explain = true
				d.Settings.TenantLimits = []resources.TenantLimit{{Tenant: "acme", Limits: resources.Limits{MaxServers: ptr(2)}}, {Tenant: "umbrella", Limits: resources.Limits{MaxServers: ptr(1)}}}
				huge, small, patient, theirs := request("1", "small", "small", "small"), request("2", "small"), request("3", "small", "small"), request("4", "small")
				huge.Tenant, small.Tenant, patient.Tenant, theirs.Tenant = "acme", "acme", "acme", "umbrella"
				huge.Created, patient.Created = now.Add(-2*reserveAfter), now.Add(-reserveAfter)
				small.Priority, theirs.Priority = 201, 202
				huge.Priority, patient.Priority = 200, 201
				small.Created = now.Add(-2 * reserveAfter)
				o.Records.Requests = []*resources.Request{huge, small, patient, theirs}
			},
			want: `fail request 1 (cloud/main: the request is too large for tenant acme: max_servers is 2 and 0 are taken)
serve request 2 at cloud/main [""]
serve request 4 at cloud/main [""]
launch request 2 #1
launch request 4 #1
request.3 waits: tenant acme: max_servers is 2 and 1 are taken
`},
		"nodes in a zone that was given up are none of the request any more": {
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				d.Providers[0].Pools[0].MaxServers = ptr(10)
				r := request("1", "small", "small", "small")
				r.State, r.Placement = resources.StatePending, resources.Placement{Provider: "cloud", Pool: "main", Zone: "az2"}
				r.Declined = []resources.Decline{{Provider: "cloud", Pool: "main", Zone: "az1"}}
				before, here := addReady(o, "0000000011"), addReady(o, "0000000012")
				before.Request, before.Zone, here.Request, here.Zone = "1", "az1", "1", "az2"
				failed, starting := readyNode("0000000013"), readyNode("0000000014")
				failed.State, failed.Error, failed.Request, failed.Zone = resources.StateFailed, "no host", "1", "az1"
				starting.State, starting.Request, starting.Zone = resources.StateBuilding, "1", "az1"
				o.Records.Nodes = append(o.Records.Nodes, failed, starting)
				o.Busy = map[resources.Key]bool{starting.Key(): true, failed.Key(): true}
				o.Records.Requests = []*resources.Request{r}
			},
			want: `free node 0000000011
launch request 1 #2
launch request 1 #3
`},
		"a tenant that has its share waits": {
			ready: []string{"0000000011"},
			change: func(d *resources.Desired, o *Observed, opt *Options) {
				d.Settings.TenantLimits = []resources.TenantLimit{{Tenant: "acme", Limits: resources.Limits{MaxServers: ptr(1)}}}
				n := addReady(o, "0000000012")
				n.State, n.Tenant = resources.StateInUse, "acme"
				r := request("1", "small")
				r.Tenant = "acme"
				o.Records.Requests = []*resources.Request{r, request("2", "small")}
				opt.Explain = true
			},
			want: `serve request 2 at cloud/main ["0000000011"]
request.1 waits: tenant acme: max_servers is 1 and 1 are taken
`},
		"an idle node of another label makes room": {
			ready: []string{"0000000011"},
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				pool := &d.Providers[0].Pools[0]
				pool.MaxServers = ptr(1)
				other := pool.Offers[0]
				other.Label = "other"
				pool.Offers = append([]resources.Offer{other}, pool.Offers...)
				d.Labels = append([]resources.Label{{Name: "other"}}, d.Labels...)
				o.Records.Requests = []*resources.Request{request("1", "other")}
			},
			want: `delete node 0000000011
`},
		"idle nodes that the request asks for too make room, but for those that it takes": {
			ready: []string{"0000000011", "0000000012"},
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				pool := &d.Providers[0].Pools[0]
				pool.MaxServers = ptr(2)
				other := pool.Offers[0]
				other.Label = "other"
				pool.Offers = append([]resources.Offer{other}, pool.Offers...)
				o.Records.Requests = []*resources.Request{request("1", "small", "other")}
			},
			want: `delete node 0000000012
`},
		"as many as it takes": {
			ready: []string{"0000000011", "0000000012", "0000000013"},
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				pool := &d.Providers[0].Pools[0]
				pool.MaxServers = ptr(3)
				other := pool.Offers[0]
				other.Label = "other"
				pool.Offers = append([]resources.Offer{other}, pool.Offers...)
				old := request("1", "other", "other")
				old.Created = now.Add(-2 * reserveAfter) // capacity is reserved for it
				o.Records.Requests = []*resources.Request{old}
			},
			want: `delete node 0000000011
delete node 0000000012
`},
		"and none when they are not enough": {
			ready: []string{"0000000011"},
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				pool := &d.Providers[0].Pools[0]
				pool.MaxServers = ptr(2)
				other := pool.Offers[0]
				other.Label = "other"
				pool.Offers = append([]resources.Offer{other}, pool.Offers...)
				addReady(o, "0000000012").State = resources.StateInUse
				o.Records.Requests = []*resources.Request{request("1", "other", "other")}
			},
		},
		"or while one is being deleted that is enough": {
			ready: []string{"0000000011", "0000000012"},
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				pool := &d.Providers[0].Pools[0]
				pool.MaxServers = ptr(2)
				other := pool.Offers[0]
				other.Label = "other"
				pool.Offers = append([]resources.Offer{other}, pool.Offers...)
				n := o.Records.Nodes[len(o.Records.Nodes)-1]
				n.State, o.Busy = resources.StateDeleting, map[resources.Key]bool{n.Key(): true}
				o.Records.Requests = []*resources.Request{request("1", "other")}
			},
		},
		"an idle node stays where launches fail": {
			ready: []string{"0000000011"},
			change: func(d *resources.Desired, o *Observed, opt *Options) {
				opt.HonorBackoff = true
				pool := &d.Providers[0].Pools[0]
				pool.MaxServers = ptr(1)
				other := pool.Offers[0]
				other.Label = "other"
				pool.Offers = append([]resources.Offer{other}, pool.Offers...)
				o.LaunchFailures = map[Address]*resources.Failure{"provider.cloud.pool.main.label.other": {Count: 1, Time: now, Error: "no valid host"}}
				o.Records.Requests = []*resources.Request{request("1", "other")}
			},
		},
		"a pending request makes room as well": {
			ready: []string{"0000000011", "0000000012"},
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				pool := &d.Providers[0].Pools[0]
				pool.MaxServers = ptr(2)
				other := pool.Offers[0]
				other.Label = "other"
				pool.Offers = append([]resources.Offer{other}, pool.Offers...)
				r := request("1", "small", "other")
				r.State, r.Placement = resources.StatePending, resources.Placement{Provider: "cloud", Pool: "main"}
				o.Records.Nodes[len(o.Records.Nodes)-1].Request = "1"
				o.Records.Requests = []*resources.Request{r}
			},
			want: `delete node 0000000011
`},
		"an image that is not in the cloud makes its pool decline": {
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				d.Providers[0].Pools[0].Offers[0].Image = resources.ImageRef{Kind: resources.CloudImage, Name: "vendor"}
				d.Providers[0].CloudImages = []resources.CloudImageSpec{{Name: "vendor"}}
				v := o.Providers["cloud"]
				v.CloudImages = map[string]CloudImageView{"vendor": {Problems: []resources.Problem{{Attribute: "image", Value: "vendor-1", Detail: "there is no such image"}}}}
				o.Providers["cloud"] = v
				o.Records.Requests = []*resources.Request{request("1", "small")}
			},
			want: `fail request 1 (cloud/main: image = "vendor-1": there is no such image)
`, problems: 1},
		"nodes of one request are in one zone": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				addReady(o, "0000000011").Zone = "az1"
				addReady(o, "0000000012").Zone = "az2"
				addReady(o, "0000000013").Zone = "az2"
				o.Records.Requests = []*resources.Request{request("1", "small", "small")}
			},
			want: `serve request 1 at cloud/main ["0000000012" "0000000013"]
`},
		"a lease that ran out ends the use": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				n := addReady(o, "0000000011")
				n.State, n.Lease = resources.StateInUse, &resources.Lease{Until: now.Add(-time.Second)}
			},
			want: `end use of node 0000000011
`},
		"who is patient does not launch where launches fail": {
			change: func(_ *resources.Desired, o *Observed, opt *Options) {
				opt.HonorBackoff, opt.Explain = true, true
				o.LaunchFailures = map[Address]*resources.Failure{"provider.cloud.pool.main.label.small": {Count: 1, Time: now, Error: "no valid host"}}
				o.Records.Requests = []*resources.Request{request("1", "small")}
			},
			want: `request.1 waits: cloud/main: launches have failed once, the next attempt is after 2026-11-20T12:00:05Z: no valid host
`},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := idle(test.ready...)
			opt := Options{}
			test.change(&d, &o, &opt)
			p := Compute(d, o, opt)
			if diff := cmp.Diff(test.want, answers(p)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if !slices.Equal(p.Relist, test.relist) {
				t.Errorf("providers to list are %q, want %q", p.Relist, test.relist)
			}
			if len(p.Problems) != test.problems {
				t.Errorf("problems %+v, want %d", p.Problems, test.problems)
			}
		})
	}
}

func TestStepsOfARequestHaveItsEventID(t *testing.T) {
	d, o := idle("0000000011")
	r := request("1", "small", "small")
	r.EventID = "e5"
	o.Records.Requests = []*resources.Request{r}
	p := Compute(d, o, Options{})
	found := 0
	for _, s := range p.Steps {
		if s.Request == "1" {
			found++
		}
		if (s.Request == "1") != (s.EventID == "e5") {
			t.Errorf("%s has event id %q", s.ID, s.EventID)
		}
	}
	if found != 2 {
		t.Errorf("%d steps are for the request, want 2", found)
	}
}

// A request that is served anew may have nodes in the pool that it had before: another process locks one, or it is being launched.
func TestRequestThatReturnsToItsPoolLaunchesNoSecondNode(t *testing.T) {
	for _, state := range []resources.State{resources.StateInit, resources.StateBuilding, resources.StateReady, resources.StateDeleting} {
		d, o := idle("7")
		r := request("r", "small")
		o.Records.Requests = []*resources.Request{r}
		left := o.Records.Nodes[len(o.Records.Nodes)-1]
		left.State, left.Request = state, r.ID
		o.Busy = map[resources.Key]bool{left.Key(): true}
		got := answers(Compute(d, o, Options{}))
		if serves, launches := strings.Contains(got, "serve request r"), strings.Contains(got, "launch request r"); !serves || launches != (state == resources.StateDeleting) {
			t.Errorf("with a node that is %s:\n%s", state, got)
		}
		r.State, r.Placement, r.PendingSince = resources.StatePending, resources.Placement{Provider: left.Provider, Pool: left.Pool}, now
		if got := answers(Compute(d, o, Options{})); strings.Contains(got, "launch request r") != (state == resources.StateDeleting) {
			t.Errorf("pending, with a node that is %s:\n%s", state, got)
		}
	}
}
