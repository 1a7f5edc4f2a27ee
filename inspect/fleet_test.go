package inspect

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

func TestStatusNamesFailingImages(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	failed := func(count int, ago time.Duration, why string) *resources.Failure {
		return &resources.Failure{Count: count, Time: now.Add(-ago), Error: why}
	}
	w := Fleet{Desired: resources.Desired{Images: []resources.Image{{Name: "broken", Kind: resources.DiskImage},
		{Name: "fine", Kind: resources.DiskImage}, {Name: "large", Kind: resources.ZuulImage}}}, Observed: plan.Observed{Now: now, Records: plan.Records{Images: []*resources.ImageRecord{
		{Name: "broken", Kind: resources.DiskImage, Failure: failed(2, 3*time.Minute, "sh ended with exit code 1; the last lines of its output:\n    E: Unable to locate package foo")},
		{Name: "fine", Kind: resources.DiskImage}, {Name: "removed", Kind: resources.DiskImage, Failure: failed(1, time.Hour, "too late")},
		{Name: "large", Kind: resources.ZuulImage, Uploads: map[string]*resources.Failure{"two": failed(1, -time.Second, "503"), "one": failed(1, time.Hour, "quota")}},
	}}}}
	got := w.Status(plan.Plan{Problems: []plan.Problem{{Address: "provider.one", Text: "no such flavor"}}}).Problems
	want := []string{"provider.one: no such flavor", "diskimage.broken: its build failed 2 times, last 3m ago: sh ended with exit code 1",
		"zuul_image.large: its upload to one failed 1 time, last 1h0m ago: quota", "zuul_image.large: its upload to two failed 1 time, last 0s ago: 503"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}
