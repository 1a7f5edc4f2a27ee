package bolt

import (
	"testing"
	"time"

	"github.com/npctl/npctl/resources"
)

// TestIDsInSightingsAreNotReused uses a file restored from a backup: the cloud has IDs that the file has not
// assigned yet.
func TestIDsInSightingsAreNotReused(t *testing.T) {
	s := store(t, tempPath(t))
	add(t, s, &resources.Node{State: resources.StateBuilding, Provider: "p"})
	sighting := func(external, id string) *resources.Sighting {
		return &resources.Sighting{Provider: "p", Type: "server", External: external, First: time.Unix(1, 0).UTC(),
			Record: resources.Key{Kind: resources.KindNode, ID: id}}
	}
	known, ahead, odd := sighting("a", "0000000001"), sighting("b", "0000000041"), sighting("c", "something")
	for i, entry := range add(t, s, known, ahead, odd) {
		if got := entry.Record.(*resources.Sighting).NewerThanState; got != (i == 1) {
			t.Errorf("sighting %s is ahead: %t", entry.Record.Key(), got)
		}
	}
	if ahead.NewerThanState {
		t.Error("the record that was passed in was changed")
	}
	node := &resources.Node{State: resources.StateBuilding, Provider: "p"}
	add(t, s, node)
	if node.ID != "0000000042" {
		t.Errorf("the next node is %s, want 0000000042", node.ID)
	}
}
