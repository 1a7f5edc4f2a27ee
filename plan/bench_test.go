package plan

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/npctl/npctl/resources"
)

// large is a fleet of 20 providers with 50 images, 1,000 builds and 10,000 nodes, some of which need steps.
func large() (resources.Desired, Observed) {
	d := resources.Desired{Settings: resources.Settings{LeakLimit: 10, LeakSightings: time.Minute}}
	o := Observed{Now: now, Installation: "here", Files: []ImageFile{}, Providers: map[string]ProviderView{}, Formats: map[string]string{}}
	for i := range 50 {
		name := fmt.Sprintf("image-%02d", i)
		d.Images = append(d.Images, resources.Image{Name: name, Kind: resources.DiskImage, Builder: "dib", Keep: 2, RebuildAge: 24 * time.Hour,
			Hashes: resources.Hashes{"v1:image"}})
		d.Labels = append(d.Labels, resources.Label{Name: fmt.Sprintf("label-%02d", i), MinReady: 200, MaxReadyAge: 8 * time.Hour})
		for j := range 20 {
			b := &resources.Build{ID: buildID(i*20 + j), Image: name, Kind: resources.DiskImage, State: resources.StateReady,
				StateTime: now.Add(-time.Duration(j*13+i%3*10) * time.Hour), Hash: "v1:image"}
			b.Files = []resources.ImageFile{{Format: "qcow2", Name: name + "-" + b.ID + ".qcow2"}}
			o.Files = append(o.Files, ImageFile{Name: b.Files[0].Name})
			o.Records.Builds = append(o.Records.Builds, b)
		}
	}
	id := 0
	for i := range 20 {
		p := resources.Provider{Name: fmt.Sprintf("cloud-%02d", i), Driver: "openstack"}
		pool := resources.Pool{Name: "main", Limits: resources.Limits{MaxServers: ptr(1000)}}
		view := ProviderView{ListedAt: now, Quota: unlimited(), Offers: map[OfferKey]OfferView{}}
		o.Formats[p.Name] = "qcow2"
		for j := range 50 {
			pool.Offers = append(pool.Offers, resources.Offer{Label: d.Labels[j].Name, Image: d.Images[j].Ref(), Hashes: resources.Hashes{"v1:offer"}})
			id++
			u := &resources.Upload{ID: fmt.Sprintf("%010d", id), Image: d.Images[j].Name, Build: buildID(j * 20), Provider: p.Name,
				State: resources.StateReady, StateTime: now.Add(-time.Hour), ExternalID: fmt.Sprintf("image-%d", id)}
			o.Records.Uploads = append(o.Records.Uploads, u)
			view.Images = append(view.Images, resources.RemoteImage{ID: u.ExternalID, Status: resources.StatusReady,
				Marks: resources.OwnerTags{Installation: "here", Kind: resources.KindUpload, ID: u.ID}})
			for k := range 10 {
				id++
				n := readyNode(fmt.Sprintf("%010d", id))
				n.Provider, n.Labels, n.Hash, n.Upload = p.Name, []string{d.Labels[j].Name}, "v1:offer", u.ID
				n.StateTime = now.Add(-time.Duration(k) * time.Hour)
				if k == 3 {
					n.State = resources.StateInUse
				}
				o.Records.Nodes = append(o.Records.Nodes, n)
				view.Instances = append(view.Instances, instance(n.ID))
			}
		}
		p.Pools = []resources.Pool{pool}
		d.Providers = append(d.Providers, p)
		o.Providers[p.Name] = view
	}
	return d, o
}

// BenchmarkCompute computes a plan for 10,000 nodes, 1,000 builds, 1,000 uploads and 20 providers.
func BenchmarkCompute(b *testing.B) {
	d, o := large()
	b.ReportAllocs()
	var p Plan
	for b.Loop() {
		p = Compute(d, o, Options{})
	}
	b.ReportMetric(float64(len(p.Steps)), "steps")
	b.ReportMetric(float64(len(o.Records.Nodes)), "nodes")
}

// withRequests adds 1,000 requests to the large fleet.
func withRequests(o *Observed) {
	for i := range 1000 {
		o.Records.Requests = append(o.Records.Requests, &resources.Request{ID: fmt.Sprintf("%010d", 1_000_000+i), State: resources.StateRequested, StateTime: now,
			Created: now.Add(-time.Minute), Labels: []string{fmt.Sprintf("label-%02d", i%50)}, Priority: 200, Requestor: "zuul"})
	}
}

// withRules adds a validation, a rollout, a disruption budget of all nodes and a window to each image and label of the large fleet. A second upload of
// each image is in its rollout.
func withRules(d *resources.Desired, o *Observed) {
	for i := range d.Images {
		d.Images[i].AutoRevert, d.Images[i].Validate = true, &resources.Validation{Nodes: 1, Attempts: 3}
		d.Images[i].Rollout = &resources.Rollout{Stages: []resources.RolloutStage{{Share: 10, Successes: 5}}}
		d.Labels[i].Disruptions = []resources.Disruption{{Max: "100%"}, {Max: "50%", Schedule: "0 1 * * *", Duration: 4 * time.Hour, TimeZone: "Europe/Berlin"}}
	}
	for _, u := range o.Records.Uploads {
		u.Hash = "v1:image"
		o.Records.Trials = append(o.Records.Trials, &resources.Trial{Upload: u.ID, Build: u.Build, Launched: now})
	}
	for i, u := range slices.Clone(o.Records.Uploads) {
		next := *u
		next.ID, next.ExternalID = fmt.Sprintf("%010d", 2_000_000+i), u.ExternalID+"-next"
		next.Build = o.Records.Builds[i%50*20+1].ID
		o.Records.Uploads = append(o.Records.Uploads, &next)
		o.Records.Trials = append(o.Records.Trials, &resources.Trial{Upload: next.ID, Build: next.Build, Launched: now, StageSince: now, Validated: now})
		view := o.Providers[u.Provider]
		view.Images = append(view.Images, resources.RemoteImage{ID: next.ExternalID, Status: resources.StatusReady,
			Marks: resources.OwnerTags{Installation: "here", Kind: resources.KindUpload, ID: next.ID}})
		o.Providers[u.Provider] = view
	}
}

// BenchmarkComputeRules compares a pass over 10,000 nodes and 1,000 requests with one of the same fleet with validation, rollout, budget
// and window on each label.
func BenchmarkComputeRules(b *testing.B) {
	for _, rules := range []bool{false, true} {
		d, o := large()
		withRequests(&o)
		name := "without"
		if rules {
			withRules(&d, &o)
			name = "with"
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var p Plan
			for b.Loop() {
				p = Compute(d, o, Options{HonorBackoff: true})
			}
			b.ReportMetric(float64(len(p.Steps)), "steps")
		})
	}
}

// BenchmarkCost adds the prices of the same fleet.
func BenchmarkCost(b *testing.B) {
	d, o := large()
	for i := range d.Providers {
		d.Providers[i].Prices = map[string]float64{"small": 0.1}
		for j := range d.Providers[i].Pools[0].Offers {
			d.Providers[i].Pools[0].Offers[j].Static = map[string]string{"flavor": `"small"`}
		}
	}
	b.ReportAllocs()
	var c resources.Cost
	for b.Loop() {
		c = CostOf(d, o)
	}
	b.ReportMetric(c.Totals[0].MinReady.Hour, "per_hour")
}

// largeAsWanted is the same fleet in its desired state.
func largeAsWanted() (resources.Desired, Observed) {
	d, o := large()
	for i := range d.Labels {
		d.Labels[i].MinReady, d.Labels[i].MaxReadyAge = 0, 0
		d.Images[i].RebuildAge, d.Images[i].Keep = 0, 100
	}
	return d, o
}

// BenchmarkComputeNothingToDo computes the empty plan of that fleet.
func BenchmarkComputeNothingToDo(b *testing.B) {
	d, o := largeAsWanted()
	b.ReportAllocs()
	for b.Loop() {
		if p := Compute(d, o, Options{}); len(p.Steps) > 0 {
			b.Fatalf("%d steps", len(p.Steps))
		}
	}
}

// TestUnchangedNodesAllocateNothing guards the pass of the daemon: most nodes match the desired state in most passes.
func TestUnchangedNodesAllocateNothing(t *testing.T) {
	d, o := largeAsWanted()
	allocations := func() float64 { return testing.AllocsPerRun(2, func() { Compute(d, o, Options{}) }) }
	all := allocations()
	half := len(o.Records.Nodes) / 2
	o.Records.Nodes = o.Records.Nodes[:half]
	for name, view := range o.Providers {
		view.Instances = slices.DeleteFunc(view.Instances, func(i resources.Instance) bool { return i.Marks.ID > o.Records.Nodes[half-1].ID })
		o.Providers[name] = view
	}
	if p := Compute(d, o, Options{}); len(p.Steps) > 0 || p.Unchanged.Count() < half {
		t.Fatalf("%d steps, %d things unchanged", len(p.Steps), p.Unchanged.Count())
	}
	if each := (all - allocations()) / float64(half); each > 0.5 {
		t.Errorf("a node that is as wanted takes %.2f allocations", each)
	}
}

// BenchmarkWaitingRequests is a pass of the daemon over the same fleet, almost all in use, with 1,000 waiting
// requests and a few that can be served.
func BenchmarkWaitingRequests(b *testing.B) {
	d, o := largeAsWanted()
	for i, n := range o.Records.Nodes {
		if i%100 != 0 {
			n.State = resources.StateInUse
		}
	}
	for i := range d.Providers {
		d.Providers[i].Pools[0].MaxServers = ptr(500)
	}
	for i := range 1000 {
		labels := []string{d.Labels[i%50].Name}
		if i%4 == 0 {
			labels = append(labels, d.Labels[i%50].Name)
		}
		o.Records.Requests = append(o.Records.Requests, request(fmt.Sprintf("%010d", i), labels...))
	}
	b.ReportAllocs()
	var p Plan
	for b.Loop() {
		p = Compute(d, o, Options{HonorBackoff: true})
	}
	b.ReportMetric(float64(len(p.Steps)), "steps")
}

// BenchmarkEffectStaticNodes compares the registrations of 10,000 static nodes.
func BenchmarkEffectStaticNodes(b *testing.B) {
	pool := resources.Pool{Name: "main"}
	for i := range 10000 {
		pool.Nodes = append(pool.Nodes, resources.StaticNode{Name: fmt.Sprint("m", i), Labels: []string{"metal"}, Slots: 1, Hashes: resources.Hashes{"v1:a"}})
	}
	d := resources.Desired{Labels: []resources.Label{{Name: "metal"}}, Providers: []resources.Provider{{Name: "rack", Driver: "static", Pools: []resources.Pool{pool}}}}
	o := Observed{Now: now, Providers: map[string]ProviderView{"rack": {ListedAt: now}}}
	side := Side{Desired: d, Observed: o, Plan: Compute(d, o, Options{})}
	if len(side.Plan.Steps) < 10000 {
		b.Fatalf("%d steps", len(side.Plan.Steps))
	}
	for b.Loop() {
		if e := EffectOf(side, side, nil); !e.Empty() {
			b.Fatal("the same plan has an effect")
		}
	}
}

// BenchmarkEffect computes the effect of a change of three labels and an image of that fleet: both plans, at the same time as npctl does,
// and their difference.
func BenchmarkEffect(b *testing.B) {
	base, o := large()
	head, _ := large()
	head.Labels[7].MinReady = 220
	head.Images[8].Hashes = resources.Hashes{"v1:other"}
	for i := range head.Providers {
		head.Providers[i].Pools[0].Offers[9].Hashes = resources.Hashes{"v1:other"}
	}
	b.ReportAllocs()
	var e Effect
	for b.Loop() {
		sides := [2]Side{{Desired: base, Observed: o}, {Desired: head, Observed: o}}
		var both sync.WaitGroup
		for i := range sides {
			both.Go(func() { sides[i].Plan = Compute(sides[i].Desired, sides[i].Observed, Options{}) })
		}
		both.Wait()
		e = EffectOf(sides[0], sides[1], nil)
	}
	b.ReportMetric(float64(len(e.Added)+len(e.Dropped)+len(e.Altered)), "steps")
	b.ReportMetric(float64(e.Common), "common")
}
