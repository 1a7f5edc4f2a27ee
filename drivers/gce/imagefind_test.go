package gce

import (
	"slices"
	"testing"

	"github.com/npctl/npctl/drivers/gce/gcetest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

func TestImagesAreFound(t *testing.T) {
	s := gcetest.New(t)
	s.AddImage(gcetest.Project, "labeled", "", "2026-02-01T00:00:00.000-08:00", map[string]string{"team": "ci"})
	c := mustOpen(t, s, nil)
	filters := func(pairs ...string) resources.CloudImageSpec {
		all := map[string]resources.AnyOf{}
		for i := 0; i < len(pairs); i += 2 {
			all[pairs[i]] = append(all[pairs[i]], pairs[i+1])
		}
		return resources.CloudImageSpec{Name: "x", Filters: all}
	}
	own := "projects/" + gcetest.Project + "/global/images/"
	for name, test := range map[string]struct {
		spec resources.CloudImageSpec
		want string
	}{
		"path":               {resources.CloudImageSpec{ImageID: gcetest.Image}, gcetest.Image},
		"URL":                {resources.CloudImageSpec{ImageID: "https://www.googleapis.com/compute/v1/" + gcetest.Image}, gcetest.Image},
		"ID is a name":       {resources.CloudImageSpec{ImageID: "own"}, own + "own"},
		"family":             {resources.CloudImageSpec{ImageID: "projects/debian-cloud/global/images/family/debian-12"}, gcetest.Image},
		"name":               {resources.CloudImageSpec{Name: "x", Image: "own"}, own + "own"},
		"family and project": {filters("family", "debian-12", "project", "debian-cloud"), gcetest.Image},
		"architecture":       {filters("name", "debian-12-*", "architecture", "ARM64", "project", "debian-cloud"), "projects/debian-cloud/global/images/debian-12-bookworm-arm64-v20260310"},
		"pattern":            {filters("name", "*-v20260210", "name", "none", "project", "debian-cloud"), "projects/debian-cloud/global/images/debian-12-bookworm-v20260210"},
		"label":              {filters("team", "ci"), own + "labeled"},
		"two projects":       {filters("name", "own", "project", "debian-cloud", "project", gcetest.Project), own + "own"},
	} {
		got, problems, err := c.ResolveImage(t.Context(), test.spec)
		if err != nil || len(problems) > 0 || got.ID != test.want {
			t.Errorf("%s: %s, %v, %v; want %s", name, got.ID, problems, err, test.want)
		}
	}
}

func TestImagesThatDoNotExistAreProblems(t *testing.T) {
	c := mustOpen(t, gcetest.New(t), nil)
	for name, test := range map[string]struct {
		spec      resources.CloudImageSpec
		attribute string
		near      string
	}{
		"ID":         {resources.CloudImageSpec{ImageID: "projects/debian-cloud/global/images/absent"}, "image_id", ""},
		"project":    {resources.CloudImageSpec{ImageID: "projects/absent/global/images/absent"}, "image_id", ""},
		"no image":   {resources.CloudImageSpec{ImageID: "projects/debian-cloud/global/snapshots/a"}, "image_id", ""},
		"deprecated": {resources.CloudImageSpec{ImageID: "projects/debian-cloud/global/images/debian-12-bookworm-v20260401"}, "image_id", ""},
		"name":       {resources.CloudImageSpec{Image: "owm"}, "image_name", "own"},
		"family":     {resources.CloudImageSpec{Filters: map[string]resources.AnyOf{"family": {"debian-1"}, "project": {"debian-cloud"}}}, "filters", "debian-12"},
	} {
		_, problems, err := c.ResolveImage(t.Context(), test.spec)
		testutil.Must(t, err)
		if len(problems) != 1 || problems[0].Attribute != test.attribute || test.near != "" && !slices.Contains(problems[0].Suggestions, test.near) {
			t.Errorf("%s: problems are %+v, want one of %s with %q", name, problems, test.attribute, test.near)
		}
	}
}
