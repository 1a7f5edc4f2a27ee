package inspect_test

import (
	"testing"
	"time"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// TestLateUploadOfAnOldBuildIsNotCurrent checks that the age of the build, not of the upload, selects the upload that
// nodes boot from, and that only ready builds and uploads count.
func TestLateUploadOfAnOldBuildIsNotCurrent(t *testing.T) {
	at := func(hour int) time.Time { return time.Date(2026, 1, 2, hour, 0, 0, 0, time.UTC) }
	build := func(id string, hour int, s resources.State) *resources.Build {
		return &resources.Build{ID: id, Image: "debian", State: s, StateTime: at(hour)}
	}
	upload := func(id, build string, hour int, s resources.State) *resources.Upload {
		return &resources.Upload{ID: id, Image: "debian", Provider: "acme", Build: build, State: s, StateTime: at(hour)}
	}
	records := plan.Records{
		Builds: []*resources.Build{build("old", 1, resources.StateReady), build("new", 2, resources.StateReady), build("failed", 3, resources.StateFailed)},
		Uploads: []*resources.Upload{upload("1", "new", 4, resources.StateReady), upload("2", "old", 5, resources.StateReady),
			upload("3", "new", 6, resources.StateFailed)},
	}
	if got := inspect.NewestReadyBuilds(records)["debian"]; got == nil || got.ID != "new" {
		t.Errorf("newest ready build is %+v", got)
	}
	if got := plan.BootChoiceOf(resources.Desired{}, records, "debian", "acme").Upload; got == nil || got.ID != "1" {
		t.Errorf("current upload is %+v", got)
	}
	if got := plan.BootChoices(resources.Desired{}, records); len(got) != 1 || got[0].Upload.ID != "1" {
		t.Errorf("current uploads are %+v", got)
	}
}
