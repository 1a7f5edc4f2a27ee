package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/npctl/npctl/resources"
)

// ids returns the IDs of the steps, in order.
func ids(p Plan) (all []string) {
	for i := range p.Steps {
		all = append(all, p.Steps[i].ID)
	}
	return all
}

func TestNamedOlderBuildIsUploaded(t *testing.T) {
	d, o := fleet(), settled()
	o.Records.Nodes = nil // which would be launched
	o.Records.Builds = append(o.Records.Builds, &resources.Build{ID: buildID(2), Image: "debian", Kind: resources.DiskImage, State: resources.StateReady,
		StateTime: now.Add(-100 * time.Hour), Hash: "v1:old", Files: []resources.ImageFile{{Format: "raw", Name: "debian-" + buildID(2) + ".raw"}}})
	o.Files = append(o.Files, ImageFile{Name: "debian-" + buildID(2) + ".raw"})
	d.Images[0].RebuildAge = time.Minute // so that a build is due
	p := Compute(d, o, Options{Upload: []string{buildID(2)}})
	want := []string{"convert " + buildID(2) + " qcow2", "upload provider.cloud.image.debian"}
	if diff := cmp.Diff(want, ids(p)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if s := p.Steps[len(p.Steps)-1]; s.Build != buildID(2) {
		t.Errorf("build %s is uploaded, want the one that was named", s.Build)
	}
}

func TestImageOfProviderListIsUploadedWithoutLabel(t *testing.T) {
	for _, test := range []struct {
		upload bool
		want   []string
	}{
		{false, nil},
		{true, []string{"upload provider.cloud.image.debian"}},
	} {
		d, o := fleet(), settled()
		d.Labels, d.Providers[0].Pools[0].Offers = nil, nil
		d.Images[0].Formats = []string{"qcow2"}
		d.Providers[0].Images = []resources.ProviderImage{{Image: d.Images[0].Ref(), Upload: test.upload}}
		o.Records.Uploads, o.Records.Nodes = nil, nil
		view := o.Providers["cloud"]
		view.Images, view.Instances = nil, nil
		o.Providers["cloud"] = view
		var uploads []string
		for _, s := range Compute(d, o, Options{}).Steps {
			if s.Kind == KindUpload {
				uploads = append(uploads, s.ID)
			}
		}
		if diff := cmp.Diff(test.want, uploads); diff != "" {
			t.Errorf("upload = %v: steps (-want +got):\n%s", test.upload, diff)
		}
	}
}

func TestRepeatedUploadReplacesExistingOne(t *testing.T) {
	d, o := fleet(), settled()
	o.Records.Nodes = o.Records.Nodes[2:]
	at := Address("provider.cloud.image.debian")
	p := Compute(d, o, Options{Upload: []string{buildID(1)}, Targets: []Address{at}, Replace: []Address{at}})
	if diff := cmp.Diff([]string{"upload provider.cloud.image.debian", "delete upload 1"}, ids(p)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestImagePlanContainsOnlyThatImage(t *testing.T) {
	for name, test := range map[string]struct {
		view                   ProviderView
		notes, deferred, wants []string
		problems               int
	}{
		"all is well": {view: ProviderView{ListedAt: now, Quota: unlimited()},
			wants: []string{"build diskimage.debian", "upload provider.cloud.image.debian"}},
		"an unreachable provider is noted": {view: ProviderView{Err: "timeout"}, notes: []string{"deferred"}, deferred: []string{"cloud"},
			wants: []string{"build diskimage.debian"}},
		"a provider that rejects its query does not stop the others": {view: ProviderView{Err: "bad password", Rejected: true}, notes: []string{"deferred"}, deferred: []string{"cloud"},
			wants: []string{"build diskimage.debian"}},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := fleet(), empty()
			d.Images = append(d.Images, resources.Image{Name: "other", Kind: resources.DiskImage, Builder: "exec", Keep: 1, Formats: []string{"raw"}})
			d.Labels = append(d.Labels, resources.Label{Name: "unoffered", MinReady: 1})
			o.Providers["cloud"] = test.view
			o.Providers["lab"] = ProviderView{Err: "no route"} // it boots from no image
			p := Compute(d, o, Options{Images: []string{"debian"}, Replace: []Address{"diskimage.debian"}})
			var notes []string
			for _, n := range p.Notes {
				notes = append(notes, n.Code)
			}
			if diff := cmp.Diff(test.wants, ids(p)); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([][]string{test.notes, test.deferred}, [][]string{notes, p.Deferred}, cmpopts.EquateEmpty()); diff != "" || len(p.Problems) != test.problems {
				t.Errorf("notes and deferred providers (-want +got):\n%s\nproblems %+v", diff, p.Problems)
			}
		})
	}
}

const (
	thisBuilder  = "11111111-1111-4111-8111-111111111111"
	otherBuilder = "22222222-2222-4222-8222-222222222222"
)

// madeThere assigns the build of the settled fleet to another builder, which is registered.
func madeThere(o *Observed) *resources.Build {
	among(o)
	o.BuilderID, o.OtherBuilders = thisBuilder, map[string]bool{otherBuilder: true}
	b := o.Records.Builds[0]
	b.Host, b.HostID = "there", otherBuilder
	o.Files = []ImageFile{}
	return b
}

// ofImages returns the steps about images, one per line.
func ofImages(p Plan) string {
	p.Steps = slices.DeleteFunc(slices.Clone(p.Steps), func(s Step) bool { return s.Thing != ThingBuild && s.Thing != ThingUpload && s.Thing != ThingFile })
	p.Notes, p.Problems = nil, nil
	return lines(p)
}

func TestImageIsManagedByRegisteredBuilderOfItsNewestBuild(t *testing.T) {
	old := func(o *Observed) { o.Records.Builds[0].StateTime = now.Add(-48 * time.Hour) } // a build is due
	const builds = "build diskimage.debian: "
	for name, test := range map[string]struct {
		change func(*Observed)
		opt    Options
		want   string // prefix of the steps about images; none when empty
	}{
		"it runs":          {change: old},
		"it does not run":  {func(o *Observed) { old(o); o.OtherBuilders = nil }, Options{}, builds + "rebuild-age"},
		"this one made it": {func(o *Observed) { old(o); o.BuilderID = otherBuilder; o.OtherBuilders = nil }, Options{}, builds + "rebuild-age"},
		"this one made newer": {func(o *Observed) {
			old(o)
			o.Records.Builds = append(o.Records.Builds, &resources.Build{ID: buildID(2), Image: "debian", Kind: resources.DiskImage, State: resources.StateReady,
				StateTime: now.Add(-30 * time.Hour), Hash: "v1:image", HostID: thisBuilder})
		}, Options{}, builds + "file-missing"},
		"its newer build is not ready": {func(o *Observed) {
			old(o)
			o.Records.Builds[0].HostID = thisBuilder
			o.Records.Builds = append(o.Records.Builds, &resources.Build{ID: buildID(2), Image: "debian", Kind: resources.DiskImage, State: resources.StateFailed,
				StateTime: now.Add(-time.Hour), HostID: otherBuilder})
		}, Options{}, builds + "rebuild-age"},
		"a build is requested":             {func(o *Observed) { o.RequestedBuilds = []string{"debian"} }, Options{}, ""},
		"a build is requested, it is away": {func(o *Observed) { o.RequestedBuilds, o.OtherBuilders = []string{"debian"}, nil }, Options{}, builds + "requested"},
		"not a shared store":               {func(o *Observed) { old(o); o.Shared = false }, Options{}, builds + "rebuild-age"},
	} {
		want, seen := fleet(), settled()
		madeThere(&seen)
		test.change(&seen)
		if got := ofImages(Compute(want, seen, test.opt)); (test.want == "") != (got == "") || !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: the steps are\n%swant those that begin with %q", name, got, test.want)
		}
	}
}

func TestReplacingImageOfAnotherBuilderIsRejected(t *testing.T) {
	want, seen := fleet(), settled()
	madeThere(&seen)
	for _, at := range []Address{"diskimage.debian", "provider.cloud.image.debian"} {
		p := Compute(want, seen, Options{Replace: []Address{at}})
		if got := ofImages(p); got != "" {
			t.Errorf("%s: steps:\n%s", at, got)
		}
		if len(p.Problems) != 1 || !strings.Contains(p.Problems[0].Text, "npctl on there") {
			t.Errorf("%s: no problem names the builder: %v", at, p.Problems)
		}
	}
}

func TestBuildsOfRemovedImagesAreDeletedOnlyByTheirBuilder(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Observed)
		opt    Options
		gone   bool
	}{
		"of another that runs":      {change: func(*Observed) {}},
		"of another that is away":   {change: func(o *Observed) { o.OtherBuilders = nil }},
		"of this one":               {change: func(o *Observed) { o.BuilderID = otherBuilder }, gone: true},
		"of another, with destroy":  {change: func(*Observed) {}, opt: Options{Destroy: true}, gone: true},
		"not a shared store":        {change: func(o *Observed) { o.Shared = false }, gone: true},
		"of a Nodepool without ids": {change: func(o *Observed) { o.Records.Builds[0].HostID = "" }, gone: true},
	} {
		want, seen := fleet(), settled()
		madeThere(&seen)
		test.change(&seen)
		want.Images, want.Providers[0].Pools[0].Offers = nil, nil
		seen.Records.Nodes = nil
		p := Compute(want, seen, test.opt)
		if got := ofImages(p); strings.Contains(got, "delete") != test.gone {
			t.Errorf("%s: the steps are\n%swant a deletion: %t", name, got, test.gone)
		}
	}
}
