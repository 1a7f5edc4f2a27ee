package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/npctl/npctl/resources"
)

// workshop is a model in which builds, conversions, uploads and deletions of images fail and leave failures in the
// records, as in package reconcile. Images are built here, fetched from an external source, or built on other hosts.
type workshop struct {
	*model
	had      map[imageAt]bool
	vanished map[string]bool // versions that cannot be fetched
	daemon   bool            // a pass runs only the steps without dependencies; the next one plans the rest
	steps    []string
}

// remembered returns the record of an image, and creates it if necessary.
func (w *workshop) remembered(image string) *resources.ImageRecord {
	for _, r := range w.Records.Images {
		if r.Name == image {
			return r
		}
	}
	r := &resources.ImageRecord{Name: image, Uploads: map[string]*resources.Failure{}}
	w.Records.Images = append(w.Records.Images, r)
	return r
}

func (w *workshop) again(before *resources.Failure, kind resources.FaultKind) *resources.Failure {
	f := &resources.Failure{Count: 1, Time: w.Now, Kind: kind, Error: "it fails"}
	if before != nil {
		f.Count += before.Count
	}
	return f
}

// apply executes the steps in order; some fail.
func (w *workshop) apply(t *rapid.T, d resources.Desired, p Plan, fails *rapid.Generator[bool]) {
	w.uploaded, w.built, w.current = map[imageAt]string{}, map[string]string{}, p
	missed := map[string]bool{}
	for _, s := range p.Steps {
		if w.daemon && len(s.Needs)+len(s.After) > 0 {
			continue
		}
		if slices.ContainsFunc(s.Needs, func(id string) bool { return missed[id] }) {
			missed[s.ID] = true
			continue
		}
		if w.vanished[s.Version] || fails.Draw(t, "fails "+s.ID) {
			w.note("fails: " + s.ID)
			missed[s.ID] = true
			w.fail(t, d, s)
		} else {
			w.note("done: " + s.ID)
			w.do(t, d, s)
		}
		w.usable(t)
	}
}

func (w *workshop) note(text string) { w.steps = append(w.steps, text) }

// usable verifies the main invariant: a provider with a bootable image of a name always keeps one.
func (w *workshop) usable(t *rapid.T) {
	now := map[imageAt]bool{}
	for _, u := range w.Records.Uploads {
		there := slices.ContainsFunc(w.Providers[u.Provider].Images, func(i resources.RemoteImage) bool {
			return i.Marks.ID == u.ID && i.Status == resources.StatusReady
		})
		recorded := slices.ContainsFunc(w.Records.Builds, func(b *resources.Build) bool { return b.ID == u.Build && b.State == resources.StateReady })
		if there && recorded && u.State == resources.StateReady {
			now[imageAt{u.Image, u.Provider}] = true
		}
	}
	for at := range w.had {
		if !now[at] {
			t.Fatalf("%s has no usable image of %s any more\n%s\n%v", at.provider, at.image, lines(w.current), w.steps)
		}
	}
	for at := range now {
		w.had[at] = true
	}
}

// do executes a step that succeeds.
func (w *workshop) do(t *rapid.T, d resources.Desired, s Step) {
	switch s.Action {
	case ActionBuild:
		w.make(d, s)
		w.remembered(s.Image).Failure = nil
	case ActionUpload:
		w.send(t, s)
		delete(w.remembered(s.Image).Uploads, s.Provider)
	default:
		if s.Thing == ThingBuild {
			delete(w.Hosts["gearman"].Builds, s.Record.ID)
		}
		w.step(t, d, s)
	}
}

// make finishes a build: a new one, or an interrupted one of another host.
func (w *workshop) make(d resources.Desired, s Step) {
	if s.Record.Kind != "" {
		b := w.find(s.Build)
		b.State, b.StateTime = resources.StateReady, w.Now
		w.Hosts["gearman"].Builds[b.ID] = true
		w.built[s.Image] = b.ID
		return
	}
	w.build(d, s)
	w.dress(d, s, w.find(w.built[s.Image]))
}

// dress sets the origin and the version of a build.
func (w *workshop) dress(d resources.Desired, s Step, b *resources.Build) {
	img := imageNamed(d, s.Image)
	b.Kind, b.Builder = img.Kind, img.Builder
	for _, v := range w.Versions[s.Image].Versions {
		if v.ID == s.Version {
			b.Version, b.VersionTime = v.ID, v.Time
		}
	}
	if b.Remote = img.Builder == "gearman"; b.Remote {
		w.Files = slices.DeleteFunc(w.Files, func(f ImageFile) bool { return BuildIDOfFile(f.Name) == b.ID })
		b.Files = nil
		w.Hosts["gearman"].Builds[b.ID] = b.State == resources.StateReady
	}
}

func imageNamed(d resources.Desired, name string) *resources.Image {
	i := slices.IndexFunc(d.Images, func(i resources.Image) bool { return i.Name == name })
	return &d.Images[i]
}

// send executes an upload; that of a remote build needs no local file.
func (w *workshop) send(t *rapid.T, s Step) {
	build := s.Build
	if build == "" {
		build = w.built[s.Image]
	}
	view := w.Providers[s.Provider]
	if b := w.find(build); b.Remote {
		if !w.Hosts["gearman"].Builds[build] {
			t.Fatalf("%s: no host has build %s", s.ID, build)
		}
		w.arrive(s, b, &view, resources.StateReady, resources.StatusReady)
	} else {
		w.upload(t, s, &view)
	}
	w.Providers[s.Provider] = view
}

// arrive records an upload and, with a status, adds its image to the cloud.
func (w *workshop) arrive(s Step, b *resources.Build, view *ProviderView, state resources.State, status resources.Status) {
	u := &resources.Upload{ID: w.id(), Image: s.Image, Build: b.ID, Provider: s.Provider, State: state, StateTime: w.Now, Format: s.Format}
	if status != "" {
		u.ExternalID = "image-" + w.id()
		view.Images = append(view.Images, resources.RemoteImage{ID: u.ExternalID, Status: status,
			Marks: resources.OwnerTags{Installation: "here", Kind: resources.KindUpload, ID: u.ID}})
	}
	if state != resources.StateReady && w.next%2 == 0 {
		u.ExternalID = "" // the response with the ID was lost
	}
	w.Records.Uploads = append(w.Records.Uploads, u)
}

// fail simulates the result of a failed step or of a killed npctl.
func (w *workshop) fail(t *rapid.T, d resources.Desired, s Step) {
	view, r := w.Providers[s.Provider], w.remembered(s.Image)
	kind := rapid.SampledFrom([]resources.FaultKind{"", resources.FaultQuota, resources.FaultRejected}).Draw(t, "kind")
	left := rapid.IntRange(0, 3).Draw(t, "left")
	switch {
	case s.Kind == KindBuild:
		w.failBuild(d, s, left, kind)
	case s.Kind == KindConvert:
		for _, p := range d.Providers {
			if w.Formats[p.Name] == s.Format {
				r.Uploads[p.Name] = w.again(r.Uploads[p.Name], kind)
			}
		}
	case s.Kind == KindUpload:
		build := s.Build
		if build == "" {
			build = w.built[s.Image]
		}
		if left < 3 { // else npctl was killed and recorded no failure
			r.Uploads[s.Provider] = w.again(r.Uploads[s.Provider], kind)
		}
		state := []resources.State{"", resources.StateFailed, resources.StateFailed, resources.StateUploading}[left]
		status := []resources.Status{"", "", resources.StatusPending, resources.StatusReady}[left]
		if state != "" {
			w.arrive(s, w.find(build), &view, state, status)
		}
		w.Providers[s.Provider] = view
	case s.Kind == KindDeleteUpload:
		w.setDeleting(s.Record)
		if left > 1 { // deleted, but the response was lost
			view.Images = slices.DeleteFunc(view.Images, func(i resources.RemoteImage) bool { return i.Marks.ID == s.Record.ID })
			w.Providers[s.Provider] = view
		}
	case s.Thing == ThingBuild:
		w.setDeleting(s.Record)
		if left > 1 {
			w.Files = slices.DeleteFunc(w.Files, func(f ImageFile) bool { return BuildIDOfFile(f.Name) == s.Record.ID })
		}
	}
}

func (w *workshop) failBuild(d resources.Desired, s Step, left int, kind resources.FaultKind) {
	r := w.remembered(s.Image)
	if left < 3 || w.vanished[s.Version] {
		r.Failure = w.again(r.Failure, kind)
	}
	if w.vanished[s.Version] {
		r.MissingVersions = append(r.MissingVersions, s.Version)
	}
	switch {
	case s.Record.Kind != "" && left > 1: // it continues on the other host
	case s.Record.Kind != "":
		w.Records.Builds = slices.DeleteFunc(w.Records.Builds, func(b *resources.Build) bool { return b.Key() == s.Record })
	case left > 1:
		w.build(d, s)
		b := w.find(w.built[s.Image])
		b.State = []resources.State{resources.StateFailed, resources.StateBuilding}[left-2]
		w.dress(d, s, b)
	}
	delete(w.built, s.Image)
}

func (w *workshop) setDeleting(key resources.Key) {
	for _, u := range w.Records.Uploads {
		if u.Key() == key {
			u.State, u.StateTime = resources.StateDeleting, w.Now
		}
	}
	for _, b := range w.Records.Builds {
		if b.Key() == key {
			b.State, b.StateTime = resources.StateDeleting, w.Now
		}
	}
}

// drawWorkshop draws a configuration and returns an empty environment.
func drawWorkshop(t *rapid.T) (resources.Desired, *workshop) {
	d := resources.Desired{Settings: resources.Settings{LeakLimit: 1000}, Labels: []resources.Label{{Name: "label"}}}
	o := Observed{Now: now, Installation: "here", Files: []ImageFile{}, Providers: map[string]ProviderView{},
		Formats: map[string]string{}, Versions: map[string]SourceView{}, Hosts: map[string]HostsView{"gearman": {Builds: map[string]bool{}}}}
	for i, kind := range []resources.ImageKind{resources.DiskImage, resources.ZuulImage, resources.DiskImage} {
		img := resources.Image{Name: fmt.Sprintf("image%d", i), Kind: kind, Builder: []string{"exec", "zuul", "gearman"}[i],
			Keep: rapid.IntRange(1, 3).Draw(t, "keep"), DeleteAfterUpload: rapid.Bool().Draw(t, "delete_after_upload"),
			Hashes: resources.Hashes{"v1:0"}}
		if kind == resources.DiskImage {
			img.RebuildAge = 24 * time.Hour
		}
		d.Images = append(d.Images, img)
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "providers") {
		p := resources.Provider{Name: fmt.Sprintf("cloud%d", i), Pools: []resources.Pool{{Name: "main"}}}
		for _, img := range d.Images {
			p.Pools[0].Offers = append(p.Pools[0].Offers, resources.Offer{Label: "label", Image: img.Ref()})
		}
		d.Providers = append(d.Providers, p)
		o.Providers[p.Name], o.Formats[p.Name] = ProviderView{Quota: unlimited()}, rapid.SampledFrom([]string{"raw", "qcow2"}).Draw(t, "format")
	}
	return d, &workshop{model: &model{Observed: &o}, had: map[imageAt]bool{}, vanished: map[string]bool{"": false}}
}

// turn is one pass of the daemon or one apply.
func (w *workshop) turn(t *rapid.T, d resources.Desired, opt Options, fails *rapid.Generator[bool]) {
	seen := w.observe()
	sighted, _ := Sightings(seen, 0)
	w.Records.Sightings = sighted
	w.note(fmt.Sprintf("-- %s, patient %t, replace %v", w.Now.Format(time.DateTime), opt.HonorBackoff, opt.Replace))
	p := Compute(d, w.observe(), opt)
	if wrong := foreignField(p.Steps); wrong != "" {
		t.Fatal(wrong)
	}
	w.apply(t, d, p, fails)
}

// unsettle makes a build due, or a provider, a source or the build hosts temporarily unreachable.
func (w *workshop) unsettle(t *rapid.T, d *resources.Desired, round int) (opt Options) {
	opt.HonorBackoff = rapid.Bool().Draw(t, "patient")
	image := &d.Images[rapid.IntRange(0, 2).Draw(t, "image")]
	switch rapid.IntRange(0, 3).Draw(t, "cause") {
	case 0:
		image.Hashes = resources.Hashes{resources.Hash(fmt.Sprintf("v1:%d", round+1))}
	case 1:
		opt.Replace = []Address{imageAddress(image.Kind, image.Name)}
	case 2:
		w.Now = w.Now.Add(25 * time.Hour)
	}
	if source := w.Versions["image1"]; source.Versions == nil || rapid.Bool().Draw(t, "new version") {
		id := fmt.Sprint("version", round)
		w.vanished[id] = rapid.IntRange(0, 3).Draw(t, "cannot be fetched") == 0
		source.Versions = append([]resources.Version{{ID: id, Time: w.Now}}, source.Versions...)
		w.Versions["image1"] = source
	}
	for name, view := range w.Providers {
		view.Err = rapid.SampledFrom([]string{"", "", "", "timeout"}).Draw(t, name+" fails")
		w.Providers[name] = view
	}
	for kind, hosts := range w.Hosts {
		hosts.Err = rapid.SampledFrom([]string{"", "", "no host answers"}).Draw(t, kind+" fails")
		w.Hosts[kind] = hosts
	}
	source := w.Versions["image1"]
	source.Err = rapid.SampledFrom([]string{"", "", "connection refused"}).Draw(t, "source fails")
	w.Versions["image1"] = source
	w.Now = w.Now.Add(time.Duration(rapid.IntRange(0, 180).Draw(t, "minutes")) * time.Minute)
	return opt
}

// calm makes everything respond, and every image due once more. The newest version of the fetched image is listed but
// cannot be fetched.
func (w *workshop) calm() {
	w.Now = w.Now.Add(25 * time.Hour)
	for name, view := range w.Providers {
		view.Err = ""
		w.Providers[name] = view
	}
	hosts := w.Hosts["gearman"]
	hosts.Err = ""
	w.Hosts["gearman"] = hosts
	w.vanished["lost"] = true
	last := []resources.Version{{ID: "lost", Time: w.Now}, {ID: "last", Time: w.Now.Add(-time.Minute)}}
	w.Versions["image1"] = SourceView{Versions: append(last, w.Versions["image1"].Versions...)}
}

// TestFailedRebuildsKeepExistingImages runs ten rounds of rebuilds of all kinds of images, with failures in every step,
// records of the failures, and backoff. A provider with a usable image always keeps one. After the failures end,
// every provider has the newest build, no more builds than configured are kept, and no steps and no recorded failures
// remain.
func TestFailedRebuildsKeepExistingImages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, w := drawWorkshop(t)
		w.daemon = rapid.Bool().Draw(t, "daemon")
		often := rapid.SampledFrom([]int{2, 4, 10}).Draw(t, "one step of how many fails")
		fails := rapid.Map(rapid.IntRange(1, often), func(n int) bool { return n == 1 })
		for round := range 10 {
			w.turn(t, d, w.unsettle(t, &d, round), fails)
		}
		w.calm()
		for range 10 {
			w.turn(t, d, Options{HonorBackoff: true}, rapid.Just(false))
			w.Now = w.Now.Add(buildBackoff.max) // longer than any backoff
		}
		p := Compute(d, w.observe(), Options{HonorBackoff: true})
		if len(p.Steps)+len(p.Problems)+len(p.Deferred) > 0 {
			t.Fatalf("the world does not settle:\n%s%v", lines(p), w.steps)
		}
		for i := range d.Images {
			w.settledImage(t, d, &d.Images[i])
		}
	})
}

// settledImage verifies the final state of an image.
func (w *workshop) settledImage(t *rapid.T, d resources.Desired, img *resources.Image) {
	if r := w.remembered(img.Name); r.Failure != nil || len(r.Uploads) > 0 {
		t.Fatalf("a failure of %s is still remembered: %+v, %v\n%v", img.Name, r.Failure, r.Uploads, w.steps)
	}
	c := &imagePlanner{world: w.world(d), draft: newDraft(w.world(d))}
	newest, needed, files := c.newestReady(img.Name), map[string]bool{}, 0
	if newest == nil || img.Kind == resources.ZuulImage && newest.Version != "last" {
		t.Fatalf("the newest build of %s is %+v\n%v", img.Name, newest, w.steps)
	}
	for _, p := range d.Providers {
		uploads := c.draft.readyUploads(img.Name, p.Name)
		if len(uploads) == 0 || len(uploads) > img.Keep || uploads[0].Build != newest.ID {
			t.Fatalf("%s has %d uploads of %s, of which %d are kept and the newest should be of %s\n%v", p.Name, len(uploads), img.Name, img.Keep, newest.ID, w.steps)
		}
		for _, u := range uploads {
			needed[u.Build] = true
		}
	}
	for _, b := range w.world(d).builds[img.Name] {
		if len(c.world.builds[img.Name]) > img.Keep && !needed[b.ID] {
			t.Fatalf("%d builds of %s are there, %d are kept, and %s is uploaded nowhere\n%v", len(c.world.builds[img.Name]), img.Name, img.Keep, b.ID, w.steps)
		}
		files += len(b.Files)
	}
	if img.DeleteAfterUpload && files > 0 {
		t.Fatalf("%d files of %s are left though every provider has it\n%v", files, img.Name, w.steps)
	}
}

func (w *workshop) world(d resources.Desired) *world { return newWorld(d, *w.Observed, Options{}) }

// overtaken is a fleet with three builds, of which the second was never uploaded before the third was made.
func overtaken() (resources.Desired, Observed) {
	d, o := fleet(), settled()
	d.Labels[0].MinReady, d.Images[0].RebuildAge = 0, 0
	o.Records.Nodes = o.Records.Nodes[2:]
	noInstances(&o)
	for n := 2; n <= 3; n++ {
		name := "debian-" + buildID(n) + ".qcow2"
		o.Records.Builds = append(o.Records.Builds, &resources.Build{ID: buildID(n), Image: "debian", Kind: resources.DiskImage, State: resources.StateReady,
			StateTime: now.Add(time.Duration(n-10) * time.Minute), Hash: "v1:image", Files: []resources.ImageFile{{Format: "qcow2", Name: name}}})
		o.Files = append(o.Files, ImageFile{Name: name})
	}
	o.Records.Uploads = append(o.Records.Uploads, &resources.Upload{ID: "3", Image: "debian", Build: buildID(3), Provider: "cloud",
		State: resources.StateReady, StateTime: now.Add(-time.Minute), Format: "qcow2", ExternalID: "image-3"})
	view := o.Providers["cloud"]
	view.Images = append(view.Images, resources.RemoteImage{ID: "image-3", Status: resources.StatusReady,
		Marks: resources.OwnerTags{Installation: "here", Kind: resources.KindUpload, ID: "3"}})
	o.Providers["cloud"] = view
	return d, o
}

func TestBuildWithoutUploadsIsSuperseded(t *testing.T) {
	d, o := overtaken()
	p := Compute(d, o, Options{})
	if len(p.Steps) != 1 || has(t, p, "delete build "+buildID(2)) == nil {
		t.Errorf("of three builds with keep = 2 the one that nobody has should go:\n%s", lines(p))
	}
	d.Images[0].Keep = 3
	if p := Compute(d, o, Options{}); len(p.Steps) > 0 {
		t.Errorf("with keep = 3 there is capacity for it:\n%s", lines(p))
	}
}

func TestNewestBuildWithoutUploadsStays(t *testing.T) {
	d, o := overtaken()
	d.Providers[0].Images = []resources.ProviderImage{{Image: d.Images[0].Ref(), Pause: true}}
	o.Records.Uploads[1].Build = buildID(2)
	if p := Compute(d, o, Options{}); len(p.Steps) > 0 {
		t.Errorf("the newest build is uploaded once the pause ends:\n%s", lines(p))
	}
}

func TestFilesOfOlderBuildsAreDeletedAfterUpload(t *testing.T) {
	d, o := overtaken()
	d.Images[0].Keep, d.Images[0].DeleteAfterUpload = 3, true
	p := Compute(d, o, Options{})
	for n := 1; n <= 3; n++ {
		if has(t, p, "delete file debian-"+buildID(n)+".qcow2") == nil {
			t.Errorf("the file of build %d stays though every provider has the newest:\n%s", n, lines(p))
		}
	}
}

func TestStoredBuildRequestStartsBuild(t *testing.T) {
	d, o := fleet(), settled()
	for _, s := range Compute(d, o, Options{}).Steps {
		t.Errorf("%s is planned before", s.ID)
	}
	o.RequestedBuilds = []string{"nobody-has-it", d.Images[0].Name}
	steps := Compute(d, o, Options{}).Steps
	if i := slices.IndexFunc(steps, func(s Step) bool { return s.Kind == KindBuild }); i < 0 || steps[i].Image != d.Images[0].Name || steps[i].Reason != ReasonRequested {
		t.Errorf("steps are %+v", steps)
	}
}

// TestFailedBuildRequestIsRetriedWithBackoff checks that a request, which stays in the store until it succeeds,
// starts a build at once, and that its own failures delay it more and more.
func TestFailedBuildRequestIsRetriedWithBackoff(t *testing.T) {
	for name, test := range map[string]struct {
		failure resources.Failure
		replace bool
		builds  bool
	}{
		"another build has failed just now":     {failure: resources.Failure{Count: 7, Time: now}, builds: true},
		"the request has failed just now":       {failure: resources.Failure{Count: 1, Time: now.Add(-time.Second), Requested: true}},
		"the request failed a minute ago":       {failure: resources.Failure{Count: 1, Time: now.Add(-time.Minute), Requested: true}, builds: true},
		"the request failed again and again":    {failure: resources.Failure{Count: 3, Time: now.Add(-3 * time.Minute), Requested: true}},
		"a command asks after a failed request": {failure: resources.Failure{Count: 3, Time: now, Requested: true}, replace: true, builds: true},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := fleet(), settled()
			o.RequestedBuilds = []string{"debian"}
			o.Records.Images = []*resources.ImageRecord{{Name: "debian", Failure: &test.failure}}
			opt := Options{HonorBackoff: true}
			if test.replace {
				opt.Replace = []Address{"diskimage.debian"}
			}
			p := Compute(d, o, opt)
			builds := slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Kind == KindBuild })
			waits := slices.ContainsFunc(p.Notes, func(n Note) bool { return n.Code == "failing" })
			if builds != test.builds || waits == test.builds {
				t.Errorf("planned: %t, want %t; a note that it waits: %t\n%s", builds, test.builds, waits, lines(p))
			}
		})
	}
}
