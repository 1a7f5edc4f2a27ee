package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/npctl/npctl/resources"
)

// model is a simulated environment to which plans are applied, without clouds or clocks.
type model struct {
	*Observed
	next     int
	uploaded map[imageAt]string // uploads of the current plan
	built    map[string]string  // by image: builds of the current plan
	current  Plan
}

func (m *model) id() string {
	m.next++
	return fmt.Sprintf("%010d", m.next)
}

// apply executes the steps in order. A step that fails, as drawn, changes nothing, and the steps that need it are
// skipped.
func (m *model) apply(t *rapid.T, d resources.Desired, p Plan, failures *rapid.Generator[bool]) (failed int) {
	m.uploaded, m.built, m.current = map[imageAt]string{}, map[string]string{}, p
	missed := map[string]bool{}
	planned := map[string]bool{}
	for _, s := range p.Steps {
		planned[s.ID] = true
	}
	done := map[string]bool{}
	for _, s := range p.Steps {
		for _, need := range s.Needs {
			if planned[need] && !done[need] && !missed[need] {
				t.Fatalf("step %q comes before %q, which it needs", s.ID, need)
			}
		}
		skip := slices.ContainsFunc(s.Needs, func(id string) bool { return missed[id] })
		if skip || failures.Draw(t, "fails "+s.ID) {
			missed[s.ID] = true
			failed++
			continue
		}
		m.step(t, d, s)
		done[s.ID] = true
		m.check(t, d, s)
	}
	return failed
}

func (m *model) step(t *rapid.T, d resources.Desired, s Step) {
	view := m.Providers[s.Provider]
	switch {
	case s.Kind == KindBuild:
		m.build(d, s)
	case s.Kind == KindConvert:
		b := m.find(s.Build)
		b.Files = append(b.Files, resources.ImageFile{Format: s.Format, Name: "i-" + b.ID + "." + s.Format})
		m.Files = append(m.Files, ImageFile{Name: "i-" + b.ID + "." + s.Format})
	case s.Kind == KindUpload:
		m.upload(t, s, &view)
	case s.Kind == KindValidate:
		m.validate(t, d, s)
	case s.Kind == KindLaunch:
		m.launch(t, d, s, &view)
	case s.Kind == KindRegisterSlot:
		m.Records.Nodes = append(m.Records.Nodes, &resources.Node{ID: m.id(), Static: true, State: resources.StateReady, StateTime: m.Now,
			Provider: s.Provider, Pool: s.Pool, Labels: strings.Split(s.Label, ","), Hostname: s.Node, Slot: s.Slot, Hash: staticHash(d, s)})
	case s.Action == ActionUpdate:
		for _, n := range m.Records.Nodes {
			if n.Key() == s.Record {
				n.Hash, n.State = staticHash(d, s), resources.StateReady
			}
		}
	case s.Thing == ThingLeftover && s.Type == "file":
		m.Files = slices.DeleteFunc(m.Files, func(f ImageFile) bool { return f.Name == s.External })
	case s.Thing == ThingLeftover:
		view.Instances = slices.DeleteFunc(view.Instances, func(i resources.Instance) bool { return s.Type == "server" && i.ID == s.External })
		view.Images = slices.DeleteFunc(view.Images, func(i resources.RemoteImage) bool { return s.Type == "image" && i.ID == s.External })
		view.Leftovers = slices.DeleteFunc(view.Leftovers, func(l resources.Leftover) bool { return l.ID == s.External })
	case s.Thing == ThingFile:
		m.deleteFile(s)
	default:
		m.drop(s, &view)
	}
	if _, ok := m.Providers[s.Provider]; ok {
		m.Providers[s.Provider] = view
	}
}

func staticHash(d resources.Desired, s Step) resources.Hash {
	for _, p := range d.Providers {
		for _, pool := range p.Pools {
			for _, n := range pool.Nodes {
				if p.Name == s.Provider && pool.Name == s.Pool && n.Name == s.Node {
					return n.Hashes.Current()
				}
			}
		}
	}
	return ""
}

func (m *model) find(build string) *resources.Build {
	i := slices.IndexFunc(m.Records.Builds, func(b *resources.Build) bool { return b.ID == build })
	return m.Records.Builds[i]
}

func (m *model) build(d resources.Desired, s Step) {
	m.next++
	b := &resources.Build{ID: buildID(m.next), Image: s.Image, Kind: resources.DiskImage, State: resources.StateReady, StateTime: m.Now}
	for _, img := range d.Images {
		if img.Name == s.Image {
			b.Hash = ImageHashes(img.Hashes, m.Inputs[img.Name].Hash).Current()
		}
	}
	for _, f := range s.Formats {
		name := "i-" + b.ID + "." + f
		b.Files = append(b.Files, resources.ImageFile{Format: f, Name: name})
		m.Files = append(m.Files, ImageFile{Name: name})
	}
	m.Records.Builds = append(m.Records.Builds, b)
	m.built[s.Image] = b.ID
}

func (m *model) upload(t *rapid.T, s Step, view *ProviderView) {
	build := s.Build
	if build == "" {
		for _, b := range m.Records.Builds { // the newest is appended last
			if b.Image == s.Image && b.State == resources.StateReady {
				build = b.ID
			}
		}
	}
	file, ok := m.find(build).File(s.Format)
	if !ok || !slices.ContainsFunc(m.Files, func(f ImageFile) bool { return f.Name == file.Name }) {
		t.Fatalf("upload of build %s: there is no %s file", build, s.Format)
	}
	u := &resources.Upload{ID: m.id(), Image: s.Image, Build: build, Provider: s.Provider, State: resources.StateReady,
		StateTime: m.Now, Format: s.Format, ExternalID: "image-" + m.id(), Hash: "v1:a"}
	m.Records.Uploads = append(m.Records.Uploads, u)
	m.uploaded[imageAt{s.Image, s.Provider}] = u.ID
	view.Images = append(view.Images, resources.RemoteImage{ID: u.ExternalID, Status: resources.StatusReady,
		Marks: resources.OwnerTags{Installation: "here", Kind: resources.KindUpload, ID: u.ID}})
}

// validate lets a test node of an upload succeed.
func (m *model) validate(t *rapid.T, d resources.Desired, s Step) {
	id := s.Upload
	if id == "" {
		id = m.uploaded[imageAt{s.Image, s.Provider}]
	}
	i := slices.IndexFunc(m.Records.Uploads, func(u *resources.Upload) bool { return u.ID == id })
	if i < 0 {
		t.Fatalf("%s: there is no upload %q", s.ID, id)
	}
	trials := TrialsOf(m.Records, s.Image, s.Provider)
	if before := trials[id]; IsValidated(m.Records.Uploads[i], before) || before != nil && before.Rejected != nil {
		t.Fatalf("%s: upload %s is tested again: %+v", s.ID, id, before)
	}
	m.Records.Put(trials.CountTest(m.Records.Uploads[i], Tester{Rule: d.Image(s.Image).Validate, Now: m.Now}, nil), 0)
}

func (m *model) launch(t *rapid.T, d resources.Desired, s Step, view *ProviderView) {
	node := &resources.Node{ID: m.id(), Provider: s.Provider, Pool: s.Pool, Labels: []string{s.Label}}
	if s.Record.Kind != "" {
		i := slices.IndexFunc(m.Records.Nodes, func(n *resources.Node) bool { return n.Key() == s.Record })
		node = m.Records.Nodes[i]
	} else {
		m.Records.Nodes = append(m.Records.Nodes, node)
	}
	for _, p := range d.Providers {
		for _, pool := range p.Pools {
			for _, o := range pool.Offers {
				if p.Name == s.Provider && pool.Name == s.Pool && o.Label == s.Label {
					node.Hash = o.Hashes.Current()
					node.Upload = m.imageFor(t, d, o, s)
				}
			}
		}
	}
	node.State, node.StateTime = resources.StateReady, m.Now
	if slices.ContainsFunc(view.Instances, func(i resources.Instance) bool { return i.ID == node.ExternalID || i.Marks.ID == node.ID }) {
		for _, i := range view.Instances {
			if i.Marks.ID == node.ID && (node.ExternalID == "" || i.ID < node.ExternalID) {
				node.ExternalID = i.ID
			}
		}
		return
	}
	node.ExternalID = "server-" + m.id()
	view.Instances = append(view.Instances, resources.Instance{ID: node.ExternalID, Status: resources.StatusReady,
		Marks: resources.OwnerTags{Installation: "here", Kind: resources.KindNode, ID: node.ID}})
}

// imageFor returns the upload that a node boots from: that of this plan, or else the upload in the step. It must be
// ready.
func (m *model) imageFor(t *rapid.T, d resources.Desired, o resources.Offer, s Step) string {
	if s.Reason == ReasonUnfinished {
		return ""
	}
	id := s.Upload
	trials := TrialsOf(m.Records, o.Image.Name, s.Provider)
	may := func(id string) bool {
		img, t := d.Image(o.Image.Name), trials[id]
		i := slices.IndexFunc(m.Records.Uploads, func(u *resources.Upload) bool { return u.ID == id })
		return img == nil || img.Validate == nil || i < 0 || IsValidated(m.Records.Uploads[i], t)
	}
	if made := m.uploaded[imageAt{o.Image.Name, s.Provider}]; made != "" {
		boot := BootChoiceOf(d, m.Records, o.Image.Name, s.Provider).Upload
		if img := d.Image(o.Image.Name); id == "" || img == nil || img.Validate == nil && img.Rollout == nil || boot != nil && boot.ID == made {
			id = made
		}
	}
	if !may(id) {
		t.Fatalf("launch %s: upload %s of %s is not validated: %+v", s.ID, id, o.Image, trials[id])
	}
	if !slices.ContainsFunc(m.Records.Uploads, func(u *resources.Upload) bool { return u.ID == id && u.State == resources.StateReady }) {
		t.Fatalf("launch %s: image %s is not there as upload %q", s.ID, o.Image, id)
	}
	return id
}

func (m *model) deleteFile(s Step) {
	name := s.External
	if name == "" {
		name = "i-" + m.built[s.Image] + "." + s.Format
	}
	m.Files = slices.DeleteFunc(m.Files, func(f ImageFile) bool { return f.Name == name })
	for _, b := range m.Records.Builds {
		b.Files = slices.DeleteFunc(b.Files, func(f resources.ImageFile) bool { return f.Name == name })
	}
}

// drop removes a record and its object.
func (m *model) drop(s Step, view *ProviderView) {
	key := s.Record
	if s.Action == ActionDelete {
		view.Instances = slices.DeleteFunc(view.Instances, func(i resources.Instance) bool {
			return key.Kind == resources.KindNode && i.Marks.Installation == "here" && i.Marks.ID == key.ID
		})
		view.Images = slices.DeleteFunc(view.Images, func(i resources.RemoteImage) bool {
			return key.Kind == resources.KindUpload && i.Marks.Installation == "here" && i.Marks.ID == key.ID
		})
		m.Files = slices.DeleteFunc(m.Files, func(f ImageFile) bool {
			return key.Kind == resources.KindBuild && BuildIDOfFile(f.Name) == key.ID
		})
	}
	r := &m.Records
	r.Nodes = slices.DeleteFunc(r.Nodes, func(n *resources.Node) bool { return n.Key() == key })
	r.Uploads = slices.DeleteFunc(r.Uploads, func(u *resources.Upload) bool { return u.Key() == key })
	r.Builds = slices.DeleteFunc(r.Builds, func(b *resources.Build) bool { return b.Key() == key })
	r.Providers = slices.DeleteFunc(r.Providers, func(p *resources.ProviderRecord) bool { return p.Key() == key })
}

// check verifies the invariants after each step.
func (m *model) check(t *rapid.T, d resources.Desired, s Step) {
	for _, p := range d.Providers {
		for _, pool := range p.Pools {
			count := 0
			for _, n := range m.Records.Nodes {
				running := slices.ContainsFunc(m.Providers[p.Name].Instances, func(i resources.Instance) bool {
					return i.ID == n.ExternalID
				})
				if n.Provider == p.Name && n.Pool == pool.Name && !n.Static && running {
					count++
				}
			}
			if s.Kind == KindLaunch && s.Record.Kind == "" && s.Provider == p.Name && s.Pool == pool.Name &&
				pool.MaxServers != nil && int64(count) > *pool.MaxServers {
				t.Fatalf("%s: pool %s/%s has %d nodes, max_servers is %d\n%s", s.ID, p.Name, pool.Name, count, *pool.MaxServers, lines(m.current))
			}
		}
	}
	for _, n := range m.Records.Nodes {
		if n.Upload == "" || n.State != resources.StateReady {
			continue
		}
		if s.Kind == KindDeleteUpload && s.Record.ID == n.Upload {
			t.Fatalf("%s: node %s still runs from it", s.ID, n.ID)
		}
	}
}

// observe returns the state for the next plan, one second later, with new listings.
func (m *model) observe() Observed {
	m.Now = m.Now.Add(time.Second)
	for name, view := range m.Providers {
		view.ListedAt = m.Now
		m.Providers[name] = view
	}
	return *m.Observed
}

func drawDesired(t *rapid.T) resources.Desired {
	d := resources.Desired{Settings: resources.Settings{LeakLimit: 1000, LeakSightings: 0}}
	images := rapid.IntRange(0, 3).Draw(t, "images")
	for i := range images {
		d.Images = append(d.Images, resources.Image{Name: fmt.Sprintf("image%d", i), Kind: resources.DiskImage, Builder: "exec",
			Keep: rapid.IntRange(1, 3).Draw(t, "keep"), RebuildAge: time.Duration(rapid.IntRange(0, 2).Draw(t, "rebuild")) * time.Hour,
			DeleteAfterUpload: rapid.Bool().Draw(t, "delete_after_upload"), Pause: rapid.IntRange(0, 5).Draw(t, "pause") == 0,
			AutoRevert: rapid.Bool().Draw(t, "auto_revert"), Validate: drawValidation(t), Rollout: drawRollout(t),
			Hashes: resources.Hashes{drawHash(t)}, Formats: rapid.SampledFrom([][]string{nil, {"raw"}}).Draw(t, "formats")})
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "labels") {
		d.Labels = append(d.Labels, resources.Label{Name: fmt.Sprintf("label%d", i), MinReady: rapid.Int64Range(0, 4).Draw(t, "min_ready"),
			IdleTimeout: time.Duration(rapid.IntRange(0, 1).Draw(t, "idle")) * 80 * time.Minute,
			MaxReadyAge: time.Duration(rapid.IntRange(0, 1).Draw(t, "age")) * 90 * time.Minute, Disruptions: drawBudgets(t)})
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "providers") {
		d.Providers = append(d.Providers, drawProvider(t, fmt.Sprintf("cloud%d", i), d))
	}
	return d
}

func drawValidation(t *rapid.T) *resources.Validation {
	if !rapid.Bool().Draw(t, "validate") {
		return nil
	}
	return &resources.Validation{Nodes: rapid.IntRange(1, 2).Draw(t, "test nodes"), Attempts: 2}
}

func drawRollout(t *rapid.T) *resources.Rollout {
	if !rapid.Bool().Draw(t, "rollout") {
		return nil
	}
	return &resources.Rollout{Stages: []resources.RolloutStage{{Share: rapid.IntRange(1, 100).Draw(t, "share"), Successes: 1}}}
}

func drawHash(t *rapid.T) resources.Hash {
	return rapid.SampledFrom([]resources.Hash{"v1:a", "v1:b"}).Draw(t, "hash")
}

// drawBudgets draws budgets of at least one node without windows, so that the world settles.
func drawBudgets(t *rapid.T) (all []resources.Disruption) {
	for range rapid.IntRange(-3, 2).Draw(t, "budgets") {
		all = append(all, resources.Disruption{Max: rapid.SampledFrom([]string{"1", "2", "50%"}).Draw(t, "max"),
			Reasons: rapid.SampledFrom([][]string{nil, {"configuration"}, {"age", "surplus"}}).Draw(t, "reasons")})
	}
	return all
}

func drawProvider(t *rapid.T, name string, d resources.Desired) resources.Provider {
	p := resources.Provider{Name: name, Driver: "openstack", Disruptions: drawBudgets(t)}
	for j := range rapid.IntRange(0, 2).Draw(t, "pools") {
		pool := resources.Pool{Name: fmt.Sprintf("pool%d", j), Priority: rapid.Int64Range(0, 1).Draw(t, "priority"), Disruptions: drawBudgets(t)}
		if rapid.Bool().Draw(t, "limited") {
			pool.MaxServers = ptr(rapid.Int64Range(0, 5).Draw(t, "max_servers"))
		}
		for _, label := range d.Labels {
			if len(d.Images) > 0 && rapid.Bool().Draw(t, "offers") {
				image := rapid.SampledFrom(d.Images).Draw(t, "image")
				pool.Offers = append(pool.Offers, resources.Offer{Label: label.Name, Image: image.Ref(), Hashes: resources.Hashes{drawHash(t)}})
			}
		}
		if rapid.IntRange(0, 3).Draw(t, "static") == 0 {
			pool.Nodes = append(pool.Nodes, resources.StaticNode{Name: "metal", Labels: []string{"label0"}, Hashes: resources.Hashes{drawHash(t)},
				Slots: rapid.Int64Range(1, 3).Draw(t, "slots")})
		}
		p.Pools = append(p.Pools, pool)
	}
	return p
}

// drawWorld draws an environment in any condition: records in every state, with and without their objects, leaks, and
// foreign objects.
func drawWorld(t *rapid.T) *model {
	o := Observed{Now: now, Installation: "here", Files: []ImageFile{}, Providers: map[string]ProviderView{},
		Formats: map[string]string{"cloud0": "qcow2", "cloud1": "raw", "cloud2": "qcow2"}}
	m := &model{Observed: &o}
	names := []string{"cloud0", "cloud1", "cloud2"}
	for i := range rapid.IntRange(0, 4).Draw(t, "builds") {
		b := &resources.Build{ID: buildID(1000 + i), Image: fmt.Sprintf("image%d", rapid.IntRange(0, 3).Draw(t, "of")), Kind: resources.DiskImage,
			State:     rapid.SampledFrom([]resources.State{resources.StateReady, resources.StateReady, resources.StateBuilding, resources.StateFailed, resources.StateDeleting}).Draw(t, "state"),
			StateTime: drawTime(t), Hash: drawHash(t)}
		if rapid.Bool().Draw(t, "file") {
			b.Files = []resources.ImageFile{{Format: "qcow2", Name: "i-" + b.ID + ".qcow2"}}
			if rapid.Bool().Draw(t, "there") {
				o.Files = append(o.Files, ImageFile{Name: "i-" + b.ID + ".qcow2"})
			}
		}
		o.Records.Builds = append(o.Records.Builds, b)
	}
	for _, name := range names {
		m.Providers[name] = m.drawView(t, name)
		if rapid.Bool().Draw(t, "remembered") {
			o.Records.Providers = append(o.Records.Providers, &resources.ProviderRecord{Name: name, Driver: "openstack"})
		}
	}
	return m
}

func drawTime(t *rapid.T) time.Time {
	return now.Add(-time.Duration(rapid.IntRange(1, 180).Draw(t, "minutes")) * time.Minute)
}

func (m *model) drawView(t *rapid.T, provider string) ProviderView {
	view := ProviderView{ListedAt: now, Quota: unlimited()}
	for range rapid.IntRange(0, 4).Draw(t, "nodes") {
		n := &resources.Node{ID: m.id(), Provider: provider, Pool: fmt.Sprintf("pool%d", rapid.IntRange(0, 2).Draw(t, "pool")),
			Labels: []string{fmt.Sprintf("label%d", rapid.IntRange(0, 4).Draw(t, "label"))}, Hash: drawHash(t), StateTime: drawTime(t),
			State: rapid.SampledFrom([]resources.State{resources.StateInit, resources.StateBuilding, resources.StateReady, resources.StateReady,
				resources.StateInUse, resources.StateUsed, resources.StateHold, resources.StateFailed, resources.StateDeleting}).Draw(t, "state")}
		if (n.State == resources.StateBuilding || n.State == resources.StateDeleting) && rapid.IntRange(0, 3).Draw(t, "test node") == 0 {
			n.Validates = "1"
		}
		if n.State != resources.StateInit && rapid.Bool().Draw(t, "external") {
			n.ExternalID = "server-" + n.ID
		}
		m.Records.Nodes = append(m.Records.Nodes, n)
		for range rapid.IntRange(0, 2).Draw(t, "instances") {
			id := "server-" + n.ID
			if rapid.Bool().Draw(t, "twin") {
				id = "server-" + m.id()
			}
			if !slices.ContainsFunc(view.Instances, func(i resources.Instance) bool { return i.ID == id }) {
				view.Instances = append(view.Instances, resources.Instance{ID: id, Name: "np" + n.ID,
					Status: rapid.SampledFrom([]resources.Status{resources.StatusReady, resources.StatusReady, resources.StatusPending, resources.StatusFailed}).Draw(t, "status"),
					Marks:  resources.OwnerTags{Installation: "here", Kind: resources.KindNode, ID: n.ID}})
			}
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "foreign") {
		view.Instances = append(view.Instances, resources.Instance{ID: "foreign-" + m.id(), Name: "np0000000001", Status: resources.StatusReady,
			Marks: resources.OwnerTags{Installation: rapid.SampledFrom([]string{"", "elsewhere"}).Draw(t, "installation"), ID: "0000000001"}})
	}
	for _, b := range m.Records.Builds {
		if rapid.Bool().Draw(t, "uploaded") {
			u := &resources.Upload{ID: m.id(), Image: b.Image, Build: b.ID, Provider: provider, StateTime: drawTime(t), Format: "qcow2",
				State: rapid.SampledFrom([]resources.State{resources.StateReady, resources.StateReady, resources.StateUploading, resources.StateFailed, resources.StateDeleting}).Draw(t, "state")}
			if u.State != resources.StateUploading {
				u.ExternalID = "image-" + u.ID
			}
			if rapid.Bool().Draw(t, "our build") {
				u.Hash = drawHash(t)
			}
			m.Records.Uploads = append(m.Records.Uploads, u)
			m.drawTrial(t, u)
			if rapid.Bool().Draw(t, "there") {
				view.Images = append(view.Images, resources.RemoteImage{ID: "image-" + u.ID, Status: resources.StatusReady,
					Marks: resources.OwnerTags{Installation: "here", Kind: resources.KindUpload, ID: u.ID}})
			}
		}
	}
	if rapid.Bool().Draw(t, "leftover") {
		view.Leftovers = append(view.Leftovers, resources.Leftover{Type: "floating_ip", ID: "fip-" + m.id(),
			Marks: resources.OwnerTags{Installation: rapid.SampledFrom([]string{"", "here", "elsewhere"}).Draw(t, "installation"), ID: "9999999999"}})
	}
	return view
}

// drawTrial draws what launches from an upload have shown.
func (m *model) drawTrial(t *rapid.T, u *resources.Upload) {
	if !rapid.Bool().Draw(t, "tried") {
		return
	}
	one := &resources.Trial{Upload: u.ID, Build: u.Build, Failures: rapid.IntRange(0, 2).Draw(t, "failures")}
	if rapid.Bool().Draw(t, "launched") {
		one.Launched = drawTime(t)
	}
	if one.Failures > 0 {
		one.Failed = drawTime(t)
		one.Since = one.Failed.Add(-time.Minute)
	}
	if rapid.Bool().Draw(t, "in a rollout") {
		one.StageSince = drawTime(t)
	}
	if rapid.Bool().Draw(t, "validated") {
		one.Passed, one.Validated = 1, drawTime(t)
	}
	if rapid.IntRange(0, 5).Draw(t, "rejected") == 0 {
		one.Rejected = &resources.Decision{Time: drawTime(t), Actor: "anna@host"}
	}
	m.Records.Trials = append(m.Records.Trials, one)
}

// foreign lists the IDs of foreign objects.
func (m *model) foreign() []string {
	var ids []string
	for _, view := range m.Providers {
		for _, i := range view.Instances {
			if i.Marks.Installation != "here" {
				ids = append(ids, i.ID)
			}
		}
		for _, l := range view.Leftovers {
			if l.Marks.Installation != "here" {
				ids = append(ids, l.ID)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

func TestAfterApplyTheNextPlanIsEmpty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, m := drawDesired(t), drawWorld(t)
		opt := Options{Destroy: rapid.IntRange(0, 5).Draw(t, "destroy") == 0}
		foreign := m.foreign()
		never := rapid.Just(false)
		failures := rapid.SampledFrom([]*rapid.Generator[bool]{never, rapid.Bool()}).Draw(t, "failures")
		const rounds = 16 // a budget may allow one node at a time
		var p Plan
		for round := range rounds {
			seen := m.observe()
			sighted, gone := Sightings(seen, 0)
			m.Records.Sightings = slices.DeleteFunc(m.Records.Sightings, func(s *resources.Sighting) bool { return slices.Contains(gone, s.Key()) })
			for _, s := range sighted {
				m.Records.Sightings = slices.DeleteFunc(m.Records.Sightings, func(old *resources.Sighting) bool { return old.Key() == s.Key() })
				m.Records.Sightings = append(m.Records.Sightings, s)
			}
			p = Compute(d, m.observe(), opt)
			if wrong := foreignField(p.Steps); wrong != "" {
				t.Fatal(wrong)
			}
			removed := map[resources.Key]bool{}
			for i := range p.Steps {
				s := &p.Steps[i]
				if (s.Removes() || s.Action == ActionForget) && s.Record.Kind != "" {
					if removed[s.Record] {
						t.Fatalf("%s is removed twice:\n%s", s.Record, lines(p))
					}
					removed[s.Record] = true
				}
				if s.Thing == ThingNode && s.Removes() && slices.Contains(p.Unchanged.Addresses(), s.Address) {
					t.Fatalf("%s is unchanged and removed", s.Address)
				}
			}
			if round >= 3 && len(p.Steps) == 0 || round == rounds-1 {
				break
			}
			if m.apply(t, d, p, failures) > 0 {
				failures = never
			}
		}
		if len(p.Steps) > 0 {
			t.Fatalf("the world does not settle:\n%s", lines(p))
		}
		if got := m.foreign(); !slices.Equal(foreign, got) {
			t.Fatalf("things of others were touched: %v before, %v after", foreign, got)
		}
	})
}

func TestComputeIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, m := drawDesired(t), drawWorld(t)
		seen := m.observe()
		text := func(p Plan) string { return fmt.Sprintf("%s%+v", lines(p), p.Notes) }
		first := text(Compute(d, seen, Options{}))
		for range 3 {
			if again := text(Compute(d, seen, Options{})); again != first {
				t.Fatalf("two plans of one world differ:\n%s\n---\n%s", first, again)
			}
		}
	})
}
