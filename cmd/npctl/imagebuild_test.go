package main

import (
	"strings"
	"testing"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

func TestBuildIsRequestedFromTheBuilderOfTheImage(t *testing.T) {
	image := func(name string) resources.Image {
		return resources.Image{Name: name, Kind: resources.DiskImage, Builder: "exec", Formats: []string{"raw"}, Keep: 1}
	}
	want := resources.Desired{Images: []resources.Image{image("alma"), image("centos")}}
	seen := plan.Observed{Shared: true, BuilderID: "mine", OtherBuilders: map[string]bool{"theirs": true}, Files: []plan.ImageFile{}, Builders: []string{"exec"}}
	seen.Records.Builds = []*resources.Build{
		{ID: strings.Repeat("1", 32), Image: "alma", Kind: resources.DiskImage, State: resources.StateReady, Host: "there", HostID: "theirs"},
		{ID: strings.Repeat("2", 32), Image: "centos", Kind: resources.DiskImage, State: resources.StateReady, Host: "here", HostID: "mine"},
	}
	made, err := decideBuild(want, seen, []string{"alma", "centos"}, false)
	if err != nil {
		t.Fatal(err)
	}
	if len(made.requested) != 1 || made.requested[0].Host != "there" {
		t.Errorf("requested are %v, want a build of alma from there", made.requested)
	}
	for _, s := range made.plan.Steps {
		if s.Image != "centos" {
			t.Errorf("planned is %s", s.ID)
		}
	}
	if made.plan.Summary().Build != 1 {
		t.Errorf("the plan is %s, want a build of centos", made.plan.Summary())
	}
	if made, err = decideBuild(want, seen, []string{"alma"}, false); err != nil || len(made.requested) != 1 || len(made.plan.Steps) > 0 {
		t.Errorf("of alma alone: %+v, %v", made, err)
	}
	if _, err := decideBuild(want, seen, []string{"alma"}, true); err == nil || !strings.Contains(err.Error(), "npctl on there") {
		t.Errorf("-only-build of an image of another builder: %v", err)
	}
	seen.OtherBuilders = nil
	if made, err = decideBuild(want, seen, []string{"alma"}, false); err != nil || len(made.requested) > 0 || made.plan.Summary().Build != 1 {
		t.Errorf("while the other builder is away: %+v, %v", made, err)
	}
}
