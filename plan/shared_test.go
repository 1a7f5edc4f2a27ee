package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/resources"
)

const (
	ownCloud = "here-PoolWorker.cloud-main-1"
	ownLab   = "here-PoolWorker.lab-main-1"
	farMain  = "there-PoolWorker.far-main-1"
)

// among makes the store shared. Our pools are registered, and one of another process that serves small.
func among(o *Observed) {
	o.Shared, o.ForeignClaims, o.OwnClaims = true, map[resources.Key]bool{}, map[resources.Key]bool{}
	o.RegisteredPools = []resources.RegisteredPool{
		{ID: ownCloud, Own: true, Host: "here", Provider: "cloud", Pool: "main", Labels: []string{"small"}, Priority: 100},
		{ID: ownLab, Own: true, Host: "here", Provider: "lab", Pool: "main", Labels: []string{"metal"}, Priority: 100},
		{ID: farMain, Host: "there", Provider: "far", Pool: "main", Labels: []string{"small", "huge"}, Priority: 100},
	}
}

// ofOthers is a node of a provider that is unknown here.
func ofOthers(id string, state resources.State) *resources.Node {
	return &resources.Node{ID: id, State: state, StateTime: now.Add(-time.Hour), Provider: "far", Pool: "main", Labels: []string{"small"}}
}

func no(id string) resources.Decline { return resources.Decline{PoolID: id} }

func pendingHere(o *Observed, labels ...string) *resources.Request {
	r := request("1", labels...)
	r.State, r.Placement = resources.StatePending, resources.Placement{Provider: "cloud", Pool: "main"}
	o.Records.Requests = append(o.Records.Requests, r)
	return r
}

func TestRequestsInSharedStore(t *testing.T) {
	full := func(d *resources.Desired, o *Observed) {
		d.Providers[0].Pools[0].MaxServers = ptr(1)
		addReady(o, "0000000011").State = resources.StateInUse
		o.ForeignClaims[resources.Key{Kind: resources.KindNode, ID: "0000000011"}] = true
	}
	for name, test := range map[string]struct {
		change func(*resources.Desired, *Observed, *resources.Request)
		want   string
	}{
		"one that anybody may serve is served": {
			func(_ *resources.Desired, o *Observed, r *resources.Request) { addReady(o, "0000000011") },
			"serve request 1 at cloud/main [\"0000000011\"]\n"},
		"a claimed request is skipped": {
			func(_ *resources.Desired, o *Observed, r *resources.Request) { o.ForeignClaims[r.Key()] = true }, ""},
		"one that prefers the provider of a candidate is left to it": {
			func(_ *resources.Desired, _ *Observed, r *resources.Request) { r.Provider = "far" }, ""},
		"one that prefers a provider that has declined is served": {
			func(_ *resources.Desired, _ *Observed, r *resources.Request) {
				r.Provider, r.Declined = "far", []resources.Decline{no(farMain)}
			}, "serve request 1 at cloud/main [\"\"]\nlaunch request 1 #1\n"},
		"a preferred provider without pools is ignored": {
			func(_ *resources.Desired, _ *Observed, r *resources.Request) { r.Provider = "nowhere" },
			"serve request 1 at cloud/main [\"\"]\nlaunch request 1 #1\n"},
		"one that prefers our provider is served whatever the priority of others": {
			func(_ *resources.Desired, o *Observed, r *resources.Request) {
				r.Provider, o.RegisteredPools[2].Priority = "cloud", 1
			}, "serve request 1 at cloud/main [\"\"]\nlaunch request 1 #1\n"},
		"a pool of better priority goes first": {
			func(_ *resources.Desired, o *Observed, _ *resources.Request) { o.RegisteredPools[2].Priority = 99 }, ""},
		"unless it is paused": {
			func(_ *resources.Desired, o *Observed, _ *resources.Request) {
				o.RegisteredPools[2].Priority, o.RegisteredPools[2].Paused = 99, true
			}, "serve request 1 at cloud/main [\"\"]\nlaunch request 1 #1\n"},
		"or has declined": {
			func(_ *resources.Desired, o *Observed, r *resources.Request) {
				o.RegisteredPools[2].Priority, r.Declined = 99, []resources.Decline{no(farMain)}
			}, "serve request 1 at cloud/main [\"\"]\nlaunch request 1 #1\n"},
		"or lacks a label": {
			func(_ *resources.Desired, o *Observed, _ *resources.Request) {
				o.RegisteredPools[2].Priority, o.RegisteredPools[2].Labels = 99, []string{"huge"}
			}, "serve request 1 at cloud/main [\"\"]\nlaunch request 1 #1\n"},
		"what others have is left to them": {
			func(_ *resources.Desired, _ *Observed, r *resources.Request) { r.Labels = []string{"huge"} }, ""},
		"what they have declined and we lack is declined, and has failed with that": {
			func(_ *resources.Desired, _ *Observed, r *resources.Request) {
				r.Labels, r.Declined = []string{"huge"}, []resources.Decline{no(farMain)}
			}, "fail request 1 (" + farMain + ": declined by another process) (cloud/main: it has no label huge, or fewer machines than are asked for) (lab/main: it has no label huge, or fewer machines than are asked for)\n"},
		"an unknown label is declined before the other process declines it": {
			func(_ *resources.Desired, _ *Observed, r *resources.Request) { r.Labels = []string{"none"} },
			"decline request 1 (cloud/main: it has no label none, or fewer machines than are asked for) (lab/main: it has no label none, or fewer machines than are asked for)\n"},
		"what never fits is declined though others may serve it": {
			func(d *resources.Desired, _ *Observed, _ *resources.Request) {
				d.Providers[0].Pools[0].MaxServers = ptr(0)
			},
			"decline request 1 (cloud/main: the request is too large: max_servers is 0 and 0 are taken)\n"},
		"what we have declined is done with": {
			func(_ *resources.Desired, _ *Observed, r *resources.Request) {
				r.Declined = []resources.Decline{no(ownCloud)}
			}, ""},
		"a decline of an earlier run counts no more": {
			func(_ *resources.Desired, _ *Observed, r *resources.Request) {
				r.Declined = []resources.Decline{{Provider: "cloud", Pool: "main", Reason: "then", PoolID: "here-PoolWorker.cloud-main-0"}}
			}, "serve request 1 at cloud/main [\"\"]\nlaunch request 1 #1\n"},
		"it fails when the last pool that had not declined is gone": {
			func(_ *resources.Desired, o *Observed, r *resources.Request) {
				o.RegisteredPools, r.Declined = o.RegisteredPools[:1], []resources.Decline{no(ownCloud)}
			}, "fail request 1 (" + ownCloud + ": declined by another process)\n"},
		"nothing is done before our pools are registered": {
			func(_ *resources.Desired, o *Observed, r *resources.Request) {
				o.RegisteredPools, r.Labels = o.RegisteredPools[2:], []string{"none"}
			}, ""},
		"a pool of the configuration that another process serves is not ours": {
			func(_ *resources.Desired, o *Observed, r *resources.Request) {
				o.RegisteredPools[0].Own = false
				o.RegisteredPools[0].ID = "elsewhere"
			}, ""},
		"what only a pool serves that we stand by for waits for its holder": {
			func(_ *resources.Desired, o *Observed, _ *resources.Request) {
				o.Frozen, o.RegisteredPools[2].Labels = map[string]bool{"cloud": true}, []string{"huge"}
			}, ""},
		"what we stand by for counts as yet to decline": {
			func(_ *resources.Desired, o *Observed, r *resources.Request) {
				o.Frozen, r.Labels, r.Declined = map[string]bool{"cloud": true}, []string{"none"}, []resources.Decline{no(farMain)}
			}, "decline request 1 (lab/main: it has no label none, or fewer machines than are asked for)\n"},
		"an unknown label waits after a store outage": {
			func(_ *resources.Desired, o *Observed, r *resources.Request) {
				o.StoreReconnected, r.Labels = true, []string{"none"}
			},
			"request.1 waits: no registered pool can serve it, and the store recovered just now\n"},
		"what others have is declined even then by who has declined it": {
			func(d *resources.Desired, o *Observed, _ *resources.Request) {
				o.StoreReconnected, d.Providers[0].Pools[0].MaxServers = true, ptr(0)
			}, "decline request 1 (cloud/main: the request is too large: max_servers is 0 and 0 are taken)\n"},
		"Nodepool's request for min_ready is served if there is capacity": {
			func(_ *resources.Desired, o *Observed, r *resources.Request) {
				r.Requestor, r.Fresh = MinReadyRequestor, true
			},
			"serve request 1 at cloud/main [\"\"]\nlaunch request 1 #1\n"},
		"and declined if there is none": {
			func(d *resources.Desired, o *Observed, r *resources.Request) {
				full(d, o)
				r.Requestor, r.Fresh = MinReadyRequestor, true
			}, "decline request 1 (cloud/main: a ready node in advance is not worth a wait: max_servers is 1 and 1 are taken)\n"},
		"or if a ready node would have to go": {
			func(d *resources.Desired, o *Observed, r *resources.Request) {
				d.Providers[0].Pools[0].MaxServers = ptr(1)
				addReady(o, "0000000011")
				r.Requestor, r.Fresh = MinReadyRequestor, true
			}, "decline request 1 (cloud/main: a ready node in advance is not worth a wait: max_servers is 1 and 1 are taken)\n"},
		"another request that lacks only capacity removes a ready node": {
			func(d *resources.Desired, o *Observed, r *resources.Request) {
				d.Providers[0].Pools[0].MaxServers = ptr(1)
				addReady(o, "0000000011")
				r.Fresh = true
			}, "delete node 0000000011\nrequest.1 waits: cloud/main: max_servers is 1 and 1 are taken\n"},
		"it waits for capacity": {
			func(d *resources.Desired, o *Observed, _ *resources.Request) { full(d, o) },
			"request.1 waits: cloud/main: max_servers is 1 and 1 are taken\n"},
		"a deadline ends it": {
			func(_ *resources.Desired, _ *Observed, r *resources.Request) { r.Deadline = now.Add(-time.Second) },
			"fail request 1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := idle()
			among(&o)
			r := request("1", "small")
			o.Records.Requests = []*resources.Request{r}
			test.change(&d, &o, r)
			p := Compute(d, o, Options{Explain: true})
			if diff := cmp.Diff(test.want, answers(p)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeclinesHaveIDOfRegisteredPool(t *testing.T) {
	d, o := idle()
	among(&o)
	r := request("1", "none")
	r.Declined = []resources.Decline{no(farMain)}
	o.Records.Requests = []*resources.Request{r}
	p := Compute(d, o, Options{})
	why := "it has no label none, or fewer machines than are asked for"
	want := []resources.Decline{no(farMain), {Provider: "cloud", Pool: "main", Reason: why, PoolID: ownCloud}, {Provider: "lab", Pool: "main", Reason: why, PoolID: ownLab}}
	if diff := cmp.Diff(want, p.Steps[0].Declined); diff != "" || p.Steps[0].Reason != ReasonAllDeclined {
		t.Errorf("%s declines (-want +got):\n%s", p.Steps[0].Reason, diff)
	}
}

func TestPoolsThatRequestsWaitForAreNamed(t *testing.T) {
	d, o := idle()
	among(&o)
	o.Records.Requests = []*resources.Request{request("1", "small")}
	if p := Compute(d, o, Options{}); p.Waiting != nil {
		t.Errorf("waiting %v though there is capacity", p.Waiting)
	}
	d.Providers[0].Pools[0].MaxServers = ptr(1)
	addReady(&o, "0000000011").State = resources.StateInUse
	o.ForeignClaims[o.Records.Nodes[len(o.Records.Nodes)-1].Key()] = true
	if diff := cmp.Diff([]resources.Placement{{Provider: "cloud", Pool: "main"}}, Compute(d, o, Options{}).Waiting); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
	pending := pendingHere(&o, "small", "small")
	o.Records.Requests = o.Records.Requests[1:]
	o.OwnClaims[pending.Key()] = true
	d.Providers[0].Pools[0].MaxServers = ptr(2)
	addReady(&o, "0000000012").Request = "1"
	if diff := cmp.Diff([]resources.Placement{{Provider: "cloud", Pool: "main"}}, Compute(d, o, Options{}).Waiting); diff != "" {
		t.Errorf("waiting for the rest of a pending request (-want +got):\n%s", diff)
	}
}

func TestPendingRequestsInSharedStore(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Observed, *resources.Request)
		want   string
	}{
		"ours is fulfilled once its nodes are ready": {
			func(o *Observed, r *resources.Request) { o.OwnClaims[r.Key()] = true },
			"serve request 1 at cloud/main [\"0000000011\"]\n"},
		"a claimed pending request is skipped": {
			func(o *Observed, r *resources.Request) { o.ForeignClaims[r.Key()] = true }, ""},
		"an unclaimed pending request is restarted": {
			func(*Observed, *resources.Request) {}, "restart request 1 [0000000011]\n"},
		"one of another provider too": {
			func(o *Observed, r *resources.Request) {
				r.Placement = resources.Placement{}
				o.Records.Nodes = append(o.Records.Nodes, ofOthers("0000000021", resources.StateInit))
				o.Records.Nodes[len(o.Records.Nodes)-1].Request = "1"
			}, "restart request 1 [0000000011 0000000021]\n"},
		"without claimed nodes": {
			func(o *Observed, r *resources.Request) {
				o.ForeignClaims[resources.Key{Kind: resources.KindNode, ID: "0000000011"}] = true
			}, "restart request 1 []\n"},
		"what a step works on is not lost": {
			func(o *Observed, r *resources.Request) { o.Busy = map[resources.Key]bool{r.Key(): true} }, ""},
		"a process without registered pools skips it": {
			func(o *Observed, r *resources.Request) { o.RegisteredPools = o.RegisteredPools[2:] }, ""},
		"a node that failed makes its pool decline, and it is anybody's again": {
			func(o *Observed, r *resources.Request) {
				o.OwnClaims[r.Key()] = true
				n := o.Records.Nodes[len(o.Records.Nodes)-1]
				n.State, n.Error = resources.StateFailed, "no valid host"
			}, "decline request 1 (cloud/main: a node could not be launched: no valid host)\ndelete node 0000000011\n"},
		"and has failed when the others declined before": {
			func(o *Observed, r *resources.Request) {
				o.OwnClaims[r.Key()] = true
				r.Declined = []resources.Decline{no(farMain), no(ownLab)}
				n := o.Records.Nodes[len(o.Records.Nodes)-1]
				n.State, n.Error = resources.StateFailed, "no valid host"
			}, "fail request 1 (" + farMain + ": declined by another process) (" + ownLab + ": declined by another process) (cloud/main: a node could not be launched: no valid host)\ndelete node 0000000011\n"},
		"the decline of a zone does not concern other pools": {
			func(o *Observed, r *resources.Request) {
				o.OwnClaims[r.Key()] = true
				r.Placement.Zone, r.Declined = "az1", []resources.Decline{no(farMain), no(ownLab)}
				n := o.Records.Nodes[len(o.Records.Nodes)-1]
				n.State, n.Error = resources.StateFailed, "no valid host"
			}, "decline request 1 (cloud/main/az1: a node could not be launched: no valid host)\ndelete node 0000000011\n"},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := idle()
			among(&o)
			r := pendingHere(&o, "small")
			addReady(&o, "0000000011").Request = "1"
			test.change(&o, r)
			p := Compute(d, o, Options{})
			got := answers(p)
			if i := slices.IndexFunc(p.Steps, func(s Step) bool { return s.Reason == ReasonAbandoned }); i >= 0 {
				got = p.Steps[i].ID + " [" + join(p.Steps[i].Nodes) + "]\n"
				if len(p.Steps) > 1 {
					t.Errorf("%d steps besides it: %s", len(p.Steps)-1, answers(p))
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func join(words []string) (line string) {
	for i, w := range words {
		if i > 0 {
			line += " "
		}
		line += w
	}
	return line
}

func TestCompletedRequestsAreEndedByTheirRequestor(t *testing.T) {
	for name, test := range map[string]struct {
		state resources.State
		who   string
		want  string
	}{
		"of Zuul, fulfilled":    {resources.StateFulfilled, "0f6d2c1b8f0e4c55b0d44f2a7d1f9a33", ""},
		"of Zuul, failed":       {resources.StateFailed, "0f6d2c1b8f0e4c55b0d44f2a7d1f9a33", ""},
		"made here, never used": {resources.StateFulfilled, OwnRequestor + "me", "fail request 1 (limit: 10m0s)\n"},
		"made here, failed":     {resources.StateFailed, OwnRequestor, "forget request 1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := idle()
			among(&o)
			r := pendingHere(&o, "small")
			r.State, r.StateTime, r.Requestor = test.state, now.Add(-2*failedRetention), test.who
			if test.state == resources.StateFulfilled {
				addReady(&o, "0000000011").Request = "1"
			}
			if diff := cmp.Diff(test.want, answers(Compute(d, o, Options{}))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNodesInSharedStore(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Observed, *resources.Node)
		want   string
	}{
		"in use and claimed, however long": {func(o *Observed, n *resources.Node) {
			n.State, n.StateTime, o.ForeignClaims[n.Key()] = resources.StateInUse, now.Add(-1000*time.Hour), true
			n.Lease = &resources.Lease{Until: now.Add(-time.Hour)}
		}, ""},
		"in use, its user is gone": {func(_ *Observed, n *resources.Node) { n.State = resources.StateInUse }, "end use of node 0000000011\n"},
		"in use under a lease": {func(_ *Observed, n *resources.Node) {
			n.State, n.Lease = resources.StateInUse, &resources.Lease{Until: now.Add(time.Hour)}
		}, ""},
		"in use by one of our own clients": {func(o *Observed, n *resources.Node) {
			n.State, o.OwnClaims[n.Key()] = resources.StateInUse, true
		}, ""},
		"used, not given back yet": {func(o *Observed, n *resources.Node) { n.State, o.ForeignClaims[n.Key()] = resources.StateUsed, true }, ""},
		"used and given back":      {func(_ *Observed, n *resources.Node) { n.State = resources.StateUsed }, "delete node 0000000011\n"},
		"taken by Zuul, whose request is gone": {func(o *Observed, n *resources.Node) {
			n.Request, o.ForeignClaims[n.Key()] = "9", true
		}, ""},
		"its request is gone":       {func(_ *Observed, n *resources.Node) { n.Request = "9" }, "free node 0000000011\n"},
		"held":                      {func(_ *Observed, n *resources.Node) { n.State = resources.StateHold }, ""},
		"testing":                   {func(_ *Observed, n *resources.Node) { n.State = "testing" }, ""},
		"being launched, unclaimed": {func(_ *Observed, n *resources.Node) { n.State = resources.StateBuilding }, "launch node 0000000011\n"},
		"being launched by another process": {func(o *Observed, n *resources.Node) {
			n.State, o.ForeignClaims[n.Key()] = resources.StateBuilding, true
		}, ""},
		"of a fulfilled request whose place was lost": {func(o *Observed, n *resources.Node) {
			r := request("9", "small")
			r.State, r.Nodes, n.Request = resources.StateFulfilled, []string{n.ID}, "9"
			o.Records.Requests = append(o.Records.Requests, r)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := idle()
			among(&o)
			test.change(&o, addReady(&o, "0000000011"))
			if diff := cmp.Diff(test.want, answers(Compute(d, o, Options{}))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNodesOfNodepoolAreAdopted(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Observed, *resources.Node)
		want   string
	}{
		"ready":                 {func(*Observed, *resources.Node) {}, ""},
		"used":                  {func(_ *Observed, n *resources.Node) { n.State = resources.StateUsed }, "delete node 0000000011\n"},
		"its server is gone":    {func(_ *Observed, n *resources.Node) { n.ExternalID = "another" }, "forget node 0000000011\n"},
		"in a store of our own": {func(o *Observed, _ *resources.Node) { o.Shared = false }, "forget node 0000000011\n"},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := idle()
			among(&o)
			n := addReady(&o, "0000000011")
			n.Hash = ""
			unmarked := &o.Providers["cloud"].Instances[0]
			unmarked.Marks, n.ExternalID = resources.OwnerTags{}, unmarked.ID
			test.change(&o, n)
			p := Compute(d, o, Options{})
			if diff := cmp.Diff(test.want, answers(p)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			known := slices.ContainsFunc(p.Notes, func(n Note) bool { return n.Code == "unmanaged" })
			if want := test.want == "forget node 0000000011\n"; known != want {
				t.Errorf("a server of others is noted: %v, want %v", known, want)
			}
		})
	}
}

func TestNodeInTransitDoesNotCountAsReady(t *testing.T) {
	d, o := idle()
	d.Labels[0].MinReady = 1
	among(&o)
	n := addReady(&o, "0000000011")
	n.Request, o.ForeignClaims[n.Key()] = "9", true
	if diff := cmp.Diff("launch provider.cloud.pool.main.label.small #1\n", answers(Compute(d, o, Options{}))); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

func TestRecordsClaimedByOthersAreSkipped(t *testing.T) {
	d, o := idle()
	d.Settings.TenantLimits = []resources.TenantLimit{{Tenant: "acme", Limits: resources.Limits{MaxServers: ptr(1)}}}
	for i, state := range []resources.State{resources.StateReady, resources.StateUsed, resources.StateBuilding, resources.StateFailed, resources.StateDeleting, resources.StateInUse} {
		n := ofOthers("000000002"+string(rune('0'+i)), state)
		n.Tenant = "acme"
		o.Records.Nodes = append(o.Records.Nodes, n)
	}
	o.Records.Uploads = append(o.Records.Uploads, &resources.Upload{ID: "2", Image: "theirs", Build: buildID(9), Provider: "far", State: resources.StateFailed})
	o.Records.Builds = append(o.Records.Builds, &resources.Build{ID: buildID(9), Image: "theirs", State: resources.StateReady, Remote: true})
	alone := Compute(d, o, Options{})
	if len(alone.Steps) == 0 {
		t.Fatal("in a store of our own they would be drained, so this tests nothing")
	}
	among(&o)
	r := request("1", "small")
	r.Tenant = "acme"
	o.Records.Requests = []*resources.Request{r}
	p := Compute(d, o, Options{Explain: true})
	if diff := cmp.Diff("request.1 waits: tenant acme: max_servers is 1 and 6 are taken\n", answers(p)); diff != "" || len(p.Steps) > 0 {
		t.Errorf("%d steps (-want +got):\n%s\n%s", len(p.Steps), diff, lines(p))
	}
}

func TestServerOfForeignRecordIsNoLeak(t *testing.T) {
	d, o := idle()
	among(&o)
	n := ofOthers("0000000021", resources.StateInUse)
	o.Records.Nodes = append(o.Records.Nodes, n)
	v := o.Providers["cloud"]
	v.Instances = append(v.Instances, instance(n.ID)) // both providers lead to one project
	o.Providers["cloud"] = v
	o.Records.Sightings = []*resources.Sighting{{Provider: "cloud", Type: "server", External: "server-" + n.ID, First: now.Add(-time.Hour)}}
	if p := Compute(d, o, Options{}); len(p.Steps) > 0 {
		t.Errorf("the server of another process is touched:\n%s", lines(p))
	}
}

func TestDestroyKeepsForeignRequests(t *testing.T) {
	d, o := idle()
	among(&o)
	theirs, ours := request("1", "small"), request("2", "small")
	ours.Requestor = OwnRequestor + "me"
	n := addReady(&o, "0000000011")
	n.State, o.ForeignClaims[n.Key()] = resources.StateInUse, true
	o.Records.Requests = []*resources.Request{theirs, ours}
	got := answers(Compute(d, o, Options{Destroy: true}))
	if diff := cmp.Diff("fail request 2\nunregister node 0000000003\n", got); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

func TestDeclineIncludesStandbys(t *testing.T) {
	for name, test := range map[string]struct {
		declined []resources.Decline
		standby  resources.RegisteredPool
		want     string
	}{
		"for us":              {nil, resources.RegisteredPool{ID: "standby", Provider: "cloud", Pool: "main", Paused: true}, "decline standby"},
		"for another":         {[]resources.Decline{{PoolID: farMain, Provider: "far", Pool: "main"}}, resources.RegisteredPool{ID: "standby", Provider: "far", Pool: "main", Paused: true}, "fail standby"},
		"for one who has not": {nil, resources.RegisteredPool{ID: "standby", Provider: "far", Pool: "main", Paused: true}, "decline"},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := idle()
			among(&o)
			o.RegisteredPools = append(o.RegisteredPools, test.standby)
			r := request("1", "none")
			r.Declined = test.declined
			o.Records.Requests = []*resources.Request{r}
			got := ""
			for _, s := range Compute(d, o, Options{}).Steps {
				if s.Kind == KindDecline {
					got, _, _ = strings.Cut(s.ID, " ")
					if declinedBy(s.Declined, "standby") {
						got += " standby"
					}
				}
			}
			if got != test.want {
				t.Errorf("the request is answered with %q, want %q", got, test.want)
			}
		})
	}
}

// A slot with two records would be assigned to two jobs.
func TestSlotHasOneRecord(t *testing.T) {
	for name, tc := range map[string]struct{ first, second resources.State }{
		"both ready":       {resources.StateReady, resources.StateReady},
		"the first in use": {resources.StateInUse, resources.StateReady},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := fleet(), settled()
			i := slices.IndexFunc(o.Records.Nodes, func(n *resources.Node) bool { return n.Static })
			again := *o.Records.Nodes[i]
			o.Records.Nodes[i].State, again.State, again.ID = tc.first, tc.second, "0000000099"
			o.Records.Nodes = append(o.Records.Nodes, &again)
			p := Compute(d, o, Options{})
			var got []string
			for _, s := range p.Steps {
				got = append(got, s.ID)
			}
			if diff := cmp.Diff([]string{"unregister node 0000000099"}, got); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

// Zuul claims the nodes as soon as the request is fulfilled. This used to happen while a launch that had just ended
// still had its own claim.
func TestRequestIsFulfilledWhenItsNodesAreUnclaimed(t *testing.T) {
	d, o := idle("0000000007")
	among(&o)
	r := request("1", "small")
	r.State, r.Placement = resources.StatePending, resources.Placement{Provider: "cloud", Pool: "main"}
	o.Records.Requests, o.Records.Nodes[len(o.Records.Nodes)-1].Request = []*resources.Request{r}, "1"
	o.OwnClaims = map[resources.Key]bool{r.Key(): true}
	o.Busy = map[resources.Key]bool{{Kind: resources.KindNode, ID: "0000000007"}: true}
	if diff := cmp.Diff("", answers(Compute(d, o, Options{}))); diff != "" {
		t.Errorf("while it is worked on (-want +got):\n%s", diff)
	}
	o.Busy = nil
	if diff := cmp.Diff("serve request 1 at cloud/main [\"0000000007\"]\n", answers(Compute(d, o, Options{}))); diff != "" {
		t.Errorf("when it is let go (-want +got):\n%s", diff)
	}
}

func TestRequestConcernsProcessesThatCouldServeIt(t *testing.T) {
	r := &resources.Request{ID: "200-0000000001", State: resources.StateRequested, Labels: []string{"small", "large"}}
	own := resources.RegisteredPool{ID: "own", Own: true, Provider: "cloud", Pool: "main", Labels: []string{"large", "small"}}
	for name, test := range map[string]struct {
		change func(*Observed, *resources.Request)
		want   bool
	}{
		"it waits":                           {func(*Observed, *resources.Request) {}, true},
		"another process has claimed it":     {func(o *Observed, r *resources.Request) { o.ForeignClaims = map[resources.Key]bool{r.Key(): true} }, false},
		"the pool has declined it":           {func(_ *Observed, r *resources.Request) { r.Declined = []resources.Decline{{PoolID: "own"}} }, false},
		"another pool has declined it":       {func(_ *Observed, r *resources.Request) { r.Declined = []resources.Decline{{PoolID: "other"}} }, true},
		"the pool lacks a label":             {func(o *Observed, _ *resources.Request) { o.RegisteredPools[0].Labels = []string{"small"} }, false},
		"the pool is of another process":     {func(o *Observed, _ *resources.Request) { o.RegisteredPools[0].Own = false }, false},
		"the provider is of another process": {func(o *Observed, _ *resources.Request) { o.RegisteredPools[0].Provider = "other" }, false},
	} {
		seen, asked := Observed{Shared: true, RegisteredPools: []resources.RegisteredPool{own}}, *r
		test.change(&seen, &asked)
		if got := Concerns(seen, &asked, func(provider string) bool { return provider == "cloud" }); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
