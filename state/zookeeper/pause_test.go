//go:build integration

package zookeeper_test

import (
	"slices"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// A running process sees pause flags that other programs set and remove.
func TestPauseByOtherProgramsIsApplied(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"of an image with a record": true, "of an image without one": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			s := tr.open(t)
			image := key(resources.KindImage, "a")
			if known {
				one(t, s, state.Op{Record: &resources.ImageRecord{Name: "a", Kind: resources.DiskImage}})
			}
			tr.create(t, "/nodepool/images/a", "")
			s.Changes()
			tr.create(t, "/nodepool/images/a/pause", "")
			testutil.Await(t, "the pause is among the changes", func() bool {
				changed, _ := s.Changes()
				return slices.ContainsFunc(changed, func(e state.Entry) bool { return e.Record.Key() == image && e.Record.(*resources.ImageRecord).Paused })
			})
			tr.delete(t, "/nodepool/images/a/pause")
			testutil.Await(t, "the end of the pause is among the changes", func() bool {
				changed, gone := s.Changes()
				if !known {
					return slices.Contains(gone, image)
				}
				return slices.ContainsFunc(changed, func(e state.Entry) bool { return e.Record.Key() == image && !e.Record.(*resources.ImageRecord).Paused })
			})
		})
	}
}
