package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/resources"
)

// unanswered is a fleet of two clouds. The launch of one label at "cloud" got no response a moment ago, and a request
// waits for its node.
func unanswered() (resources.Desired, Observed) {
	d, o := idle()
	second := d.Providers[0]
	second.Name, second.Pools = "second", slices.Clone(second.Pools)
	d.Providers = append(d.Providers, second)
	o.Providers["second"] = ProviderView{ListedAt: now.Add(-time.Minute), Quota: unlimited()}
	for _, u := range slices.Clone(o.Records.Uploads) {
		if u.Provider == "cloud" {
			there := *u
			there.ID, there.Provider = u.ID+"-second", "second"
			o.Records.Uploads = append(o.Records.Uploads, &there)
			view := o.Providers["second"]
			view.Images = append(view.Images, resources.RemoteImage{ID: there.ExternalID, Status: resources.StatusReady,
				Marks: resources.OwnerTags{Installation: o.Installation, Kind: resources.KindUpload, ID: there.ID, Provider: "second"}})
			o.Providers["second"] = view
		}
	}
	n := readyNode("0000000011")
	n.State, n.StateTime, n.ExternalID, n.Request = resources.StateBuilding, now, "", "1"
	n.Attempt, n.UnansweredAttempts, n.Error = 1, 1, "no answer within 1m0s"
	o.Records.Nodes = append(o.Records.Nodes, n)
	r := request("1", "small")
	r.State, r.Placement = resources.StatePending, resources.Placement{Provider: "cloud", Pool: "main"}
	o.Records.Requests = []*resources.Request{r}
	o.LaunchFailures = map[Address]*resources.Failure{OfferAddress("cloud", "main", "small"): {Count: 1, Time: now,
		Kind: resources.FaultUnavailable, Error: "no answer within 1m0s"}}
	return d, o
}

const putOff = "request.1 waits: launches have failed once, the next attempt is after 2026-11-20T12:00:05Z: no answer within 1m0s\n"

func TestRequestWaitsForUnreachableProvider(t *testing.T) {
	full := func(d *resources.Desired) { d.Providers[len(d.Providers)-1].Pools[0].MaxServers = ptr(0) }
	for name, test := range map[string]struct {
		change func(*resources.Desired, *Observed, *resources.Node)
		want   string
	}{
		"by a request without another provider": {func(d *resources.Desired, _ *Observed, _ *resources.Node) { full(d) }, putOff},
		"and not by one that another can serve": {func(*resources.Desired, *Observed, *resources.Node) {}, "restart request 1\n"},
		"as long as the node is worked on": {func(_ *resources.Desired, o *Observed, n *resources.Node) {
			o.Busy = map[resources.Key]bool{n.Key(): true}
		}, ""},
		"until it is time to ask again": {func(_ *resources.Desired, o *Observed, _ *resources.Node) {
			o.LaunchFailures[OfferAddress("cloud", "main", "small")].Time = now.Add(-6 * time.Second)
		}, "launch node 0000000011\n"},
		"for a minute at the most": {func(_ *resources.Desired, o *Observed, _ *resources.Node) {
			f := o.LaunchFailures[OfferAddress("cloud", "main", "small")]
			f.Count, f.Time = 1000, now.Add(-61*time.Second)
		}, "launch node 0000000011\n"},
		"until the deadline": {func(_ *resources.Desired, o *Observed, _ *resources.Node) {
			o.Records.Requests[0].Deadline = now.Add(-time.Second)
		}, "fail request 1\n"},
		"by a request that wants it": {func(_ *resources.Desired, o *Observed, _ *resources.Node) {
			o.Records.Requests[0].Provider = "cloud"
		}, putOff},
		"also where the server is made already": {func(d *resources.Desired, o *Observed, n *resources.Node) {
			full(d)
			n.ExternalID = "server-1"
		}, putOff},
		"when it gives no lists either": {func(_ *resources.Desired, o *Observed, _ *resources.Node) {
			o.Providers["cloud"] = ProviderView{Err: "no answer"}
		}, "restart request 1\n"},
		"not queried yet": {func(_ *resources.Desired, o *Observed, _ *resources.Node) {
			delete(o.Providers, "cloud")
			o.Frozen = map[string]bool{"cloud": true}
			o.LaunchFailures = nil
		}, ""},
		"not by a node whose request is gone": {func(_ *resources.Desired, o *Observed, _ *resources.Node) {
			o.Records.Requests = nil
		}, "delete node 0000000011\n"},
		"not by a node that is to be ready in advance": {func(d *resources.Desired, o *Observed, n *resources.Node) {
			d.Labels[0].MinReady, n.Request, o.Records.Requests = 1, "", nil
		}, "launch provider.second.pool.main.label.small #1\ndelete node 0000000011\n"},
		"by a label without another provider": {func(d *resources.Desired, o *Observed, n *resources.Node) {
			d.Providers = slices.Delete(d.Providers, len(d.Providers)-1, len(d.Providers))
			d.Labels[0].MinReady, n.Request, o.Records.Requests = 1, "", nil
		}, ""},
		"by one of which there is a server": {func(d *resources.Desired, o *Observed, n *resources.Node) {
			d.Labels[0].MinReady, n.Request, n.ExternalID, o.Records.Requests = 1, "", "server-1", nil
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := unanswered()
			test.change(&d, &o, o.Records.Nodes[len(o.Records.Nodes)-1])
			if diff := cmp.Diff(test.want, answers(Compute(d, o, Options{HonorBackoff: true, Explain: true}))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// TestApplyIgnoresBackoffDuringOutage checks that a plan without HonorBackoff launches at once.
func TestApplyIgnoresBackoffDuringOutage(t *testing.T) {
	d, o := unanswered()
	if diff := cmp.Diff("launch node 0000000011\n", answers(Compute(d, o, Options{}))); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

func TestTwoRequestsAreNotReassignedToTheSameCapacity(t *testing.T) {
	d, o := unanswered()
	d.Providers[len(d.Providers)-1].Pools[0].MaxServers = ptr(1)
	second, n := *o.Records.Requests[0], *o.Records.Nodes[len(o.Records.Nodes)-1]
	second.ID, n.ID, n.Request = "2", "0000000012", "2"
	o.Records.Requests, o.Records.Nodes = append(o.Records.Requests, &second), append(o.Records.Nodes, &n)
	want := "restart request 1\nrequest.2 waits: launches have failed once, the next attempt is after 2026-11-20T12:00:05Z: no answer within 1m0s\n"
	if diff := cmp.Diff(want, answers(Compute(d, o, Options{HonorBackoff: true, Explain: true}))); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

// TestOtherProcessServesRequestDuringOutage has pools of other processes, which alone know their capacity.
func TestOtherProcessServesRequestDuringOutage(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Observed, *resources.Request)
		want   string
	}{
		"a pool elsewhere serves it":       {func(*Observed, *resources.Request) {}, "restart request 1\n"},
		"it is paused":                     {func(o *Observed, _ *resources.Request) { o.RegisteredPools[2].Paused = true }, putOff},
		"it has declined":                  {func(_ *Observed, r *resources.Request) { r.Declined = []resources.Decline{no(farMain)} }, putOff},
		"it stands by for the same cloud":  {func(o *Observed, _ *resources.Request) { o.RegisteredPools[2].Provider = "cloud" }, putOff},
		"the provider is the one it wants": {func(_ *Observed, r *resources.Request) { r.Provider = "cloud" }, putOff},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := unanswered()
			d.Providers = slices.Delete(d.Providers, len(d.Providers)-1, len(d.Providers))
			among(&o)
			r := o.Records.Requests[0]
			o.OwnClaims[r.Key()] = true
			test.change(&o, r)
			if diff := cmp.Diff(test.want, answers(Compute(d, o, Options{HonorBackoff: true, Explain: true}))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPostponedLaunchIsExplained(t *testing.T) {
	d, o := unanswered()
	d.Providers = slices.Delete(d.Providers, len(d.Providers)-1, len(d.Providers))
	for explain, want := range map[bool][]string{true: {"node.0000000011 postponed", "request.1 waiting"}, false: nil} {
		var got []string
		for _, n := range Compute(d, o, Options{HonorBackoff: true, Explain: explain}).Notes {
			got = append(got, string(n.Address)+" "+n.Code)
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("notes with explanations %t (-want +got):\n%s", explain, diff)
		}
	}
}

func TestFrozenProviderIsNotReportedAsDead(t *testing.T) {
	for want, freeze := range map[string]func(*Observed){
		"the provider is frozen":           func(o *Observed) { o.Frozen = map[string]bool{"cloud": true} },
		"the provider could not be listed": func(o *Observed) { o.Providers["cloud"] = ProviderView{Err: "refused"} },
	} {
		d, o := fleet(), settled()
		d.Labels[0].MinReady = 5
		o.Records.Requests = append(o.Records.Requests, &resources.Request{ID: "1", State: resources.StateRequested, Labels: []string{"small"}, Fresh: true})
		freeze(&o)
		notes := ""
		for _, n := range Compute(d, o, Options{Explain: true}).Notes {
			notes += n.Code + ": " + n.Text + "\n"
		}
		if strings.Count(notes, want) < 2 {
			t.Errorf("the notes about the request and min_ready lack %q:\n%s", want, notes)
		}
	}
}
