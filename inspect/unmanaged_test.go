package inspect_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

func TestObjectsWithoutRecordAreUnmanaged(t *testing.T) {
	t.Parallel()
	marks := func(installation string, kind resources.Kind, id string) resources.OwnerTags {
		return resources.OwnerTags{Installation: installation, Kind: kind, ID: id}
	}
	created := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	seen := plan.Observed{Installation: "we", Providers: map[string]plan.ProviderView{"acme": {
		Instances: []resources.Instance{
			{ID: "s1", Marks: marks("we", resources.KindNode, "1")},
			{ID: "s2", Marks: marks("we", resources.KindNode, "2")}, // its launch has not recorded the ID yet
			{ID: "s3", Marks: marks("we", resources.KindNode, "1")}, // a duplicate
			{ID: "s4", Marks: marks("we", resources.KindNode, "9")},
			{ID: "s5", Marks: marks("they", resources.KindNode, "1")},
			{ID: "s6"}, {ID: "s7"}, {ID: "s8", Marks: marks("we", resources.KindBuild, "b")},
		},
		Images: []resources.RemoteImage{
			{ID: "i1", Marks: marks("we", resources.KindUpload, "1")}, {ID: "i2", Marks: marks("we", resources.KindUpload, "9"), Created: created},
		},
		Leftovers: []resources.Leftover{
			{Type: "port", ID: "p1", Marks: marks("we", resources.KindNode, "1")}, {Type: "port", ID: "p2", Marks: marks("we", resources.KindNode, "9")},
			{Type: "port", ID: "p3", Marks: marks("we", resources.KindNode, "9"), InUse: true},
			{Type: "snapshot", ID: "x1", Marks: marks("we", resources.KindUpload, "1")}, // of the image i1
		},
	}}}
	for _, r := range []resources.Record{
		&resources.Node{ID: "1", Provider: "acme", ExternalID: "s1"}, &resources.Node{ID: "2", Provider: "acme"},
		&resources.Node{ID: "3", Provider: "acme", ExternalID: "s6"}, // adopted from another program
		&resources.Upload{ID: "1", Provider: "acme", ExternalID: "i1"}, &resources.Build{ID: "b"},
	} {
		seen.Records.Put(r, 1)
	}
	view := seen.Providers["acme"]
	view.Others = []resources.ExistingObject{
		{Instance: resources.Instance{ID: "s6"}, Program: "Nodepool"}, {Instance: resources.Instance{ID: "s7"}, Program: "Nodepool"},
		{Image: resources.RemoteImage{ID: "i3"}},
	}
	seen.Providers["acme"] = view
	var got []string
	for _, o := range inspect.Unmanaged(seen) {
		got = append(got, fmt.Sprint(o.Type, " ", o.ID, " ", o.Owner, " ", o.Tags, o.Created != nil))
	}
	want := []string{"image i2 leak true", "image i3 none false", "port p2 leak false", "port p3 in-use false", "server s3 leak false", "server s4 leak false",
		"server s5 npctl theyfalse", "server s7 nodepool Nodepoolfalse"}
	if !slices.Equal(got, want) {
		t.Errorf("unmanaged:\n%q, want\n%q", got, want)
	}
}
