package lab

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNodeWithTwoUsersIsDetected(t *testing.T) {
	machine := Used{Provider: "p", ExternalID: []byte(`"m"`)}
	a, b := machine, machine
	a.ID, b.ID = "1", "2"
	held := []Held{
		{Request: "r1", Nodes: []Used{a}, Held: 1, Returned: 2},
		{Request: "r2", Nodes: []Used{b}, Held: 2, Returned: 3},
		{Request: "r3", Nodes: []Used{b}, Held: 4, Returned: 5},
		{Request: "r4", Nodes: []Used{{ID: "3"}}, Held: 1, Returned: 9},
	}
	if shared := SharedNodes(held); len(shared) != 0 {
		t.Errorf("one after the other: %v", shared)
	}
	held[1].Held = 1.5
	want := []string{`p "m" slot 0: r1 held it until 2.000, r2 from 1.500 on`}
	if diff := cmp.Diff(want, SharedNodes(held)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
