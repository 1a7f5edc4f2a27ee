package plan

import (
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
