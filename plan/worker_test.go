package plan

import (
	"strings"
	"testing"

	"github.com/npctl/npctl/resources"
)

func TestRecordsOfLockHolderAreSkipped(t *testing.T) {
	var r Records
	build := &resources.Build{ID: strings.Repeat("b", 32), Image: "debian", Kind: resources.DiskImage, State: resources.StateBuilding}
	upload := &resources.Upload{ID: "0000000001", Image: "other", Provider: "one", State: resources.StateUploading}
	launched := &resources.Node{ID: "0000000001", Provider: "one", State: resources.StateBuilding}
	ready := &resources.Node{ID: "0000000002", Provider: "one", State: resources.StateReady}
	for i, record := range []resources.Record{build, upload, launched, ready} {
		r.Put(record, uint64(i+1))
	}
	before := Observed{Records: r}
	if got := markLockHolderBusy(before); len(got.Busy) != 0 {
		t.Errorf("without a worker %v are busy", got.Busy)
	}
	before.Busy = map[resources.Key]bool{}
	before.LockHolder = &LockHolder{Operation: "apply", Who: "ann@here"}
	got := markLockHolderBusy(before)
	for _, record := range []resources.Record{build, upload, launched} {
		if !got.Busy[record.Key()] {
			t.Errorf("%s is not busy", record.Key())
		}
	}
	if got.Busy[ready.Key()] || len(before.Busy) > 0 {
		t.Errorf("busy: %v, before: %v", got.Busy, before.Busy)
	}
	c := newWorld(resources.Desired{}, got, Options{})
	for image, want := range map[string]bool{"debian": true, "other": true, "third": false} {
		if c.workedOn(image) != want {
			t.Errorf("the worker is at %s: %v", image, !want)
		}
	}
	p := Compute(resources.Desired{}, got, Options{})
	if p.InProgress == nil || len(p.Notes) == 0 || !strings.Contains(p.Notes[0].Text, "ann@here") {
		t.Errorf("got %v, %v", p.InProgress, p.Notes)
	}
	for _, s := range p.Steps {
		if s.Record == build.Key() || s.Record == upload.Key() || s.Record == launched.Key() {
			t.Errorf("planned: %s", s.ID)
		}
	}
}
