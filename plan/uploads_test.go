package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources"
)

func TestLaunchWaitsForLoginUpdateOfItsUpload(t *testing.T) {
	want, seen := fleet(), settled()
	seen.Records.Uploads[0].Login = resources.Login{Username: "zuul", ConnectionType: "ssh", ConnectionPort: 22}
	seen.Records.Nodes[0].Upload, seen.Records.Nodes[1].Upload = "1", "1"
	want.Images[0].Login = seen.Records.Uploads[0].Login
	if p := Compute(want, seen, Options{}); len(p.Steps) > 0 {
		t.Fatalf("the login is the same: %v", p.Steps)
	}
	want.Images[0].Login.Username = "debian"
	want.Labels[0].MinReady = 3
	p := Compute(want, seen, Options{})
	i := slices.IndexFunc(p.Steps, func(s Step) bool { return s.Kind == KindUpdateUpload })
	j := slices.IndexFunc(p.Steps, func(s Step) bool { return s.Kind == KindLaunch })
	if len(p.Steps) != 2 || i < 0 || j < 0 {
		t.Fatalf("got %v", p.Steps)
	}
	if diff := cmp.Diff([]Change{{Attribute: "username", Before: "zuul", After: "debian"}}, p.Steps[i].Changes); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if !slices.Contains(p.Steps[j].Needs, p.Steps[i].ID) {
		t.Errorf("the launch waits for %v", p.Steps[j].Needs)
	}
	if !slices.ContainsFunc(p.Notes, func(n Note) bool { return n.Code == "login-kept" }) {
		t.Errorf("no note says that ready nodes keep their login: %v", p.Notes)
	}
	seen.Shared, seen.Records.Uploads[0].Unmarked = true, true
	for _, s := range Compute(want, seen, Options{}).Steps {
		if s.Thing == ThingUpload {
			t.Errorf("the upload is another program's: %s", s.ID)
		}
	}
}

func TestProvidersImageBlockOverridesTheLoginOfAnImage(t *testing.T) {
	img := resources.Image{Name: "debian", Kind: resources.DiskImage,
		Login: resources.Login{Username: "zuul", PythonPath: "auto", ConnectionType: "ssh", ConnectionPort: 22}}
	for _, c := range []struct{ own, want resources.Login }{
		{resources.Login{}, img.Login},
		{resources.Login{ConnectionPort: 2222}, resources.Login{Username: "zuul", PythonPath: "auto", ConnectionType: "ssh", ConnectionPort: 2222}},
		{resources.Login{Username: "root", ConnectionType: "winrm", ConnectionPort: 5986},
			resources.Login{Username: "root", PythonPath: "auto", ConnectionType: "winrm", ConnectionPort: 5986}},
	} {
		p := resources.Provider{Images: []resources.ProviderImage{{Image: img.Ref(), Login: c.own}}}
		if got := img.LoginIn(&p); got != c.want {
			t.Errorf("%+v: got %+v, want %+v", c.own, got, c.want)
		}
	}
}

func TestReadyNodesOnAnOlderBuildAreNoted(t *testing.T) {
	want, seen := fleet(), settled()
	seen.Records.Nodes[0].Upload, seen.Records.Nodes[1].Upload = "1", "1"
	noted := func() []Note {
		return slices.DeleteFunc(Compute(want, seen, Options{}).Notes, func(n Note) bool { return n.Code != "older-build" })
	}
	if notes := noted(); len(notes) > 0 {
		t.Fatalf("there is one build: %v", notes)
	}
	older, newer := *seen.Records.Builds[0], *seen.Records.Uploads[0]
	older.ID, older.StateTime, older.Files = buildID(2), now.Add(-2*time.Hour), nil
	seen.Records.Builds = append(seen.Records.Builds, &older)
	seen.Records.Uploads[0].Build = older.ID
	newer.ID, newer.ExternalID = "2", "image-2"
	seen.Records.Uploads = append(seen.Records.Uploads, &newer)
	view := seen.Providers["cloud"]
	view.Images = append(view.Images, resources.RemoteImage{ID: "image-2", Status: resources.StatusReady,
		Marks: resources.OwnerTags{Installation: "here", Kind: resources.KindUpload, ID: "2"}})
	seen.Providers["cloud"] = view
	notes := noted()
	if len(notes) != 1 || !strings.Contains(notes[0].Text, "2 ready nodes of debian in cloud") {
		t.Errorf("2 nodes run from the older build, got %v", notes)
	}
}

// withSettings gives the provider a block of the image with an attribute, and returns the hash of its settings.
func withSettings(want *resources.Desired, value string) resources.Hash {
	static := map[string]string{"boot_mode": value}
	own := resources.ProviderImage{Image: want.Images[0].Ref(), Static: static, Hashes: resources.HashValue(cty.ObjectVal(map[string]cty.Value{"boot_mode": cty.StringVal(value)}))}
	want.Providers[0].Images = []resources.ProviderImage{own}
	return own.Hashes.Current()
}

func TestChangedSettingsOfAnImageReplaceItsUpload(t *testing.T) {
	want, seen := fleet(), settled()
	old := seen.Records.Uploads[0]
	if withSettings(&want, "uefi"); len(Compute(want, seen, Options{}).Steps) > 0 {
		t.Fatal("an upload of an earlier npctl has no hash of its settings, and is replaced")
	}
	old.Settings = withSettings(&want, "legacy-bios")
	seen.Records.Templates = append(seen.Records.Templates, &resources.Template{Hash: old.Settings, Static: want.Providers[0].Images[0].Static})
	if steps := Compute(want, seen, Options{}).Steps; len(steps) > 0 {
		t.Fatalf("nothing has changed: %v", steps)
	}
	now := withSettings(&want, "uefi")
	want.Labels[0].MinReady = 3
	runFrom := func(upload string) { seen.Records.Nodes[0].Upload, seen.Records.Nodes[1].Upload = upload, upload }
	runFrom("")
	steps := Compute(want, seen, Options{}).Steps
	of := func(action Action, thing Thing) *Step {
		i := slices.IndexFunc(steps, func(s Step) bool { return s.Action == action && s.Thing == thing })
		if i < 0 {
			t.Fatalf("no step %s %s: %v", action, thing, steps)
		}
		return &steps[i]
	}
	made, gone, launch := of(ActionUpload, ThingUpload), of(ActionDelete, ThingUpload), of(ActionLaunch, ThingNode)
	if diff := cmp.Diff([]Change{{Attribute: "boot_mode", Before: "legacy-bios", After: "uefi", Forces: true}}, made.Changes); diff != "" || made.Reason != ReasonConfigChanged {
		t.Errorf("upload because of %s (-want +got):\n%s", made.Reason, diff)
	}
	if gone.Reason != ReasonConfigChanged || !slices.Contains(gone.Needs, made.ID) || !gone.Replaces || gone.NeedsConsent {
		t.Errorf("the deletion is %+v", gone)
	}
	if !slices.Contains(launch.Needs, made.ID) {
		t.Errorf("the launch does not wait for the image: %+v", launch)
	}

	next := *old // nodes run from the old one, which stays behind the new one
	next.ID, next.ExternalID, next.Settings, next.StateTime = "2", "image-2", now, old.StateTime.Add(-time.Minute)
	seen.Records.Uploads = append(seen.Records.Uploads, &next)
	seen.Providers["cloud"] = withImage(seen.Providers["cloud"], "image-2", "2")
	runFrom(old.ID)
	steps = Compute(want, seen, Options{}).Steps
	if launch = of(ActionLaunch, ThingNode); len(steps) != 1 || launch.Upload != next.ID {
		t.Errorf("nodes run from the old upload, and there is a new one: %v, launch from %s", steps, launch.Upload)
	}
	runFrom("")
	steps = Compute(want, seen, Options{}).Steps
	if gone = of(ActionDelete, ThingUpload); len(steps) != 2 || gone.Record != old.Key() || gone.NeedsConsent {
		t.Errorf("no node runs from the old upload: %v", steps)
	}
}

// Without files of the build, npctl builds again, and the label keeps its image until then.
func TestChangedSettingsOfAnImageWithoutFilesNeedABuild(t *testing.T) {
	want, seen := fleet(), settled()
	seen.Records.Uploads[0].Settings = withSettings(&want, "legacy-bios")
	seen.Records.Builds[0].Files = nil
	withSettings(&want, "uefi")
	p := Compute(want, seen, Options{})
	for _, s := range p.Steps {
		if s.Kind == KindDeleteUpload && len(s.Needs) == 0 {
			t.Errorf("the upload goes first: %+v", s)
		}
	}
	if len(p.Steps) < 2 || p.Steps[0].Kind != KindBuild || p.Steps[1].Kind != KindUpload {
		t.Errorf("got %v", p.Steps)
	}
}

func withImage(view ProviderView, id, upload string) ProviderView {
	view.Images = append(slices.Clone(view.Images), resources.RemoteImage{ID: id, Status: resources.StatusReady,
		Marks: resources.OwnerTags{Installation: "here", Kind: resources.KindUpload, ID: upload}})
	return view
}
