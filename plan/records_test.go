package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/npctl/npctl/resources"
)

// record returns a record of a kind that the planner uses.
func record(kind resources.Kind, id string) resources.Record {
	switch kind {
	case resources.KindProvider:
		return &resources.ProviderRecord{Name: id}
	case resources.KindImage:
		return &resources.ImageRecord{Name: id}
	case resources.KindBuild:
		return &resources.Build{ID: id}
	case resources.KindUpload:
		return &resources.Upload{ID: id}
	case resources.KindNode:
		return &resources.Node{ID: id}
	case resources.KindRequest:
		return &resources.Request{ID: id}
	case resources.KindTemplate:
		return &resources.Template{Hash: resources.Hash(id)}
	case resources.KindSighting:
		return &resources.Sighting{External: id}
	default:
		return &resources.History{Subject: id}
	}
}

func TestRecordsStaySorted(t *testing.T) {
	kinds := resources.PlannedKinds()
	rapid.Check(t, func(t *rapid.T) {
		var kept Records
		all := map[resources.Key]resources.Record{}
		revisions := map[resources.Key]uint64{}
		for i := range rapid.IntRange(0, 40).Draw(t, "changes") {
			r := record(rapid.SampledFrom(kinds).Draw(t, "kind"), fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "id")))
			if rapid.IntRange(0, 3).Draw(t, "drop") == 0 {
				kept.Drop(r.Key())
				delete(all, r.Key())
				delete(revisions, r.Key())
				continue
			}
			kept.Put(r, uint64(i))
			all[r.Key()], revisions[r.Key()] = r, uint64(i)
		}
		var want Records // in the order of a store
		for _, key := range slices.SortedFunc(maps.Keys(all), func(a, b resources.Key) int { return cmp.Compare(a.ID, b.ID) }) {
			want.Put(all[key], revisions[key])
		}
		before := kept.Clone()
		kept.Drop(resources.Key{Kind: resources.KindNode, ID: "5"})
		kept.Put(record(resources.KindNode, "4"), 99)
		if diff := gocmp.Diff(want, before, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("records (-sorted +kept):\n%s", diff)
		}
		if !slices.IsSortedFunc(before.Nodes, func(a, b *resources.Node) int { return cmp.Compare(a.ID, b.ID) }) || len(before.Revisions) != len(all) {
			t.Fatalf("%d records, want %d and the nodes sorted: %v", len(before.Revisions), len(all), before.Nodes)
		}
	})
}
