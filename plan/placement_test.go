package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/resources"
)

// poolSpec is a pool with the label small and a ready upload of its image.
type poolSpec struct {
	provider, pool string
	providers      int64 // priority of the provider
	own            int64 // priority of the pool; 0: the provider's
	max            int64
	flavor         string
}

// fleetOf is the fleet with other pools, all of which offer the label small.
func fleetOf(pools ...poolSpec) (resources.Desired, Observed) {
	d, o := fleet(), empty()
	builds := settled().Records.Builds
	o.Records.Builds, o.Files = builds, settled().Files
	d.Providers = nil
	o.Providers = map[string]ProviderView{}
	for _, spec := range pools {
		i := len(d.Providers) - 1
		if i < 0 || d.Providers[i].Name != spec.provider {
			d.Providers = append(d.Providers, resources.Provider{Name: spec.provider, Driver: "openstack", Priority: spec.providers})
			i++
			o.Formats[spec.provider] = "qcow2"
			id := "upload-" + spec.provider
			o.Records.Uploads = append(o.Records.Uploads, &resources.Upload{ID: id, Image: "debian", Build: builds[0].ID, Provider: spec.provider,
				State: resources.StateReady, StateTime: now, Format: "qcow2", ExternalID: "image-" + id})
			o.Providers[spec.provider] = ProviderView{ListedAt: now, Quota: unlimited(), Images: []resources.RemoteImage{{ID: "image-" + id,
				Status: resources.StatusReady, Marks: resources.OwnerTags{Installation: "here", Kind: resources.KindUpload, ID: id}}}}
		}
		flavor := cmp.Or(spec.flavor, "small")
		d.Providers[i].Pools = append(d.Providers[i].Pools, resources.Pool{Name: spec.pool, Priority: cmp.Or(spec.own, spec.providers), Limits: resources.Limits{MaxServers: ptr(spec.max)},
			Offers: []resources.Offer{{Label: "small", Image: d.Images[0].Ref(), Hashes: resources.Hashes{resources.Hash("v1:" + flavor)},
				Static: map[string]string{"flavor": fmt.Sprintf("%q", flavor)}}}})
		o.Records.Templates = append(o.Records.Templates, &resources.Template{Hash: resources.Hash("v1:" + flavor),
			Static: map[string]string{"flavor": fmt.Sprintf("%q", flavor)}})
	}
	return d, o
}

// addNode puts a ready node with a flavor into a pool.
func (o *Observed) addNode(id, provider, pool, flavor string) *resources.Node {
	n := readyNode(id)
	n.Provider, n.Pool, n.Hash, n.Upload = provider, pool, resources.Hash("v1:"+flavor), "upload-"+provider
	o.Records.Nodes = append(o.Records.Nodes, n)
	o.Records.Templates = append(o.Records.Templates, &resources.Template{Hash: n.Hash, Static: map[string]string{"flavor": fmt.Sprintf("%q", flavor)}})
	view := o.Providers[provider]
	view.Instances = append(view.Instances, instance(id))
	o.Providers[provider] = view
	return n
}

func TestPlacementOrder(t *testing.T) {
	type used struct{ provider, pool string }
	for name, test := range map[string]struct {
		pools []poolSpec
		used  []used
		want  string
	}{
		"the provider with the lower priority": {
			pools: []poolSpec{{provider: "a", pool: "main", providers: 100, max: 10}, {provider: "b", pool: "main", providers: 50, max: 10}}, want: "b/main"},
		"a pool's own priority instead of its provider's": {
			pools: []poolSpec{{provider: "a", pool: "main", providers: 100, own: 10, max: 10}, {provider: "b", pool: "main", providers: 50, max: 10}}, want: "a/main"},
		"a worse pool of the better provider": {
			pools: []poolSpec{{provider: "a", pool: "main", providers: 10, own: 90, max: 10}, {provider: "b", pool: "main", providers: 50, max: 10}}, want: "b/main"},
		"the better of two pools": {
			pools: []poolSpec{{provider: "a", pool: "one", providers: 100, max: 10}, {provider: "a", pool: "two", providers: 100, own: 99, max: 10}}, want: "a/two"},
		"priority before room": {
			pools: []poolSpec{{provider: "a", pool: "main", providers: 50, max: 2}, {provider: "b", pool: "main", providers: 100, max: 10}},
			used:  []used{{"a", "main"}}, want: "a/main"},
		"the larger free share": {
			pools: []poolSpec{{provider: "a", pool: "main", providers: 100, max: 2}, {provider: "b", pool: "main", providers: 100, max: 10}},
			used:  []used{{"a", "main"}, {"b", "main"}}, want: "b/main"},
		"the name of the provider": {
			pools: []poolSpec{{provider: "b", pool: "main", providers: 100, max: 4}, {provider: "a", pool: "main", providers: 100, max: 8}}, want: "a/main"},
		"the name of the pool": {
			pools: []poolSpec{{provider: "a", pool: "two", providers: 100, max: 4}, {provider: "a", pool: "one", providers: 100, max: 8}}, want: "a/one"},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := fleetOf(test.pools...)
			for i, u := range test.used {
				o.addNode(fmt.Sprintf("%010d", i+1), u.provider, u.pool, "small").State = resources.StateInUse
			}
			d.Labels[0].MinReady = 1
			launchedAt(t, "min_ready", Compute(d, o, Options{}), test.want)
			d.Labels[0].MinReady = 0
			o.Records.Requests = []*resources.Request{{ID: "request", State: resources.StateRequested, StateTime: now, Created: now, Labels: []string{"small"}}}
			launchedAt(t, "request", Compute(d, o, Options{}), test.want)
		})
	}
}

func launchedAt(t *testing.T, what string, p Plan, want string) {
	t.Helper()
	for _, s := range p.Steps {
		if s.Kind == KindLaunch {
			if at := s.Provider + "/" + s.Pool; at != want {
				t.Errorf("%s: launched in %s, want %s", what, at, want)
			}
			return
		}
	}
	t.Errorf("%s: nothing is launched:\n%s", what, lines(p))
}

func TestMultiNodeRequestUsesZoneOfAllLabels(t *testing.T) {
	d, o := fleetOf(poolSpec{provider: "a", pool: "main", providers: 100, max: 10})
	d.Labels = append(d.Labels, resources.Label{Name: "zoned"})
	d.Labels[0].MinReady = 0
	offer := d.Providers[0].Pools[0].Offers[0]
	offer.Label = "zoned"
	d.Providers[0].Pools[0].Offers = append(d.Providers[0].Pools[0].Offers, offer)
	o.addNode("0000000001", "a", "main", "small").Zone = "az1"
	view := o.Providers["a"]
	view.Offers = map[OfferKey]OfferView{{"main", "small"}: {ResolvedOffer: resources.ResolvedOffer{Zones: []string{"az1", "az2"}}},
		{"main", "zoned"}: {ResolvedOffer: resources.ResolvedOffer{Zones: []string{"az2"}}}}
	o.Providers["a"] = view
	o.Records.Requests = []*resources.Request{{ID: "request", State: resources.StateRequested, StateTime: now, Created: now, Labels: []string{"small", "zoned"}}}
	p := Compute(d, o, Options{})
	for _, s := range launches(p) {
		if s.Zone != "az2" {
			t.Errorf("%s in zone %q, and the label zoned is only in az2:\n%s", s.ID, s.Zone, lines(p))
		}
	}
	if len(launches(p)) != 2 {
		t.Errorf("the ready node in az1 is of no use:\n%s", lines(p))
	}
}

// TestFailedDeleteIsRetriedWithBackoff checks that a failed delete waits 5 s at first and at most 10 minutes,
// and that the steps that need it wait too. A plan that is executed once does not wait.
func TestFailedDeleteIsRetriedWithBackoff(t *testing.T) {
	d, o := fleet(), settled()
	o.Records.Nodes[0].State = resources.StateUsed
	id := "delete node " + o.Records.Nodes[0].ID
	for _, test := range []struct {
		count int
		after time.Duration
	}{{1, 5 * time.Second}, {2, 10 * time.Second}, {5, 80 * time.Second}, {8, 10 * time.Minute}, {30, 10 * time.Minute}} {
		for _, at := range []struct {
			age     time.Duration
			planned bool
		}{{0, false}, {test.after - time.Millisecond, false}, {test.after, true}} {
			o.FailingSteps = map[string]*resources.Failure{id: {Count: test.count, Time: now.Add(-at.age), Error: "409 in use\nmore"}}
			p := Compute(d, o, Options{HonorBackoff: true})
			planned := slices.ContainsFunc(p.Steps, func(s Step) bool { return s.ID == id })
			note := slices.ContainsFunc(p.Notes, func(n Note) bool {
				return n.Code == NoteFailing && n.Address == nodeAddress(o.Records.Nodes[0].ID) && strings.Contains(n.Text, ": 409 in use")
			})
			if planned != at.planned || note == at.planned {
				t.Errorf("%d failures, the newest %s ago: planned %t, want %t; with a note: %t\n%s", test.count, at.age, planned, at.planned, note, lines(p))
			}
			if slices.ContainsFunc(p.Steps, func(s Step) bool { return slices.Contains(s.Needs, id) && !planned }) {
				t.Errorf("a step is planned that needs one that waits:\n%s", lines(p))
			}
			if p := Compute(d, o, Options{}); !slices.ContainsFunc(p.Steps, func(s Step) bool { return s.ID == id }) {
				t.Errorf("an apply does not try:\n%s", lines(p))
			}
		}
	}
}

// TestFailureInTheFutureDelaysNothing has failures of a build, an upload, a launch and a deletion from a time when
// the clock was a year ahead.
func TestFailureInTheFutureDelaysNothing(t *testing.T) {
	c := &world{opt: Options{HonorBackoff: true}, seen: Observed{Now: now}}
	for ahead, want := range map[time.Duration]bool{-time.Second: true, 30 * time.Second: true, 365 * 24 * time.Hour: false} {
		for _, p := range []backoff{buildBackoff, uploadBackoff, launchBackoff, unreachableBackoff, staticBackoff, deleteBackoff} {
			if got := c.inBackoff(&resources.Failure{Count: 1, Time: now.Add(ahead)}, p); got != want {
				t.Errorf("a failure %s from now with patience %v waits: %t, want %t", ahead, p, got, want)
			}
		}
	}
}
