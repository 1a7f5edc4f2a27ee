package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
	i := slices.IndexFunc(p.Steps, func(s Step) bool { return s.Action == ActionUpdate && s.Thing == ThingUpload })
	j := slices.IndexFunc(p.Steps, func(s Step) bool { return s.Action == ActionLaunch })
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
