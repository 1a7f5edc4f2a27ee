package plan

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// valued is the configuration of the fleet with settings that have planned values, and nothing created yet.
func valued() (resources.Desired, Observed) {
	d, o := fleet(), empty()
	d.Labels[0].MinReady = 1
	cloud := &d.Providers[0]
	cloud.ImageNames = "ci-{image_name}-{timestamp}"
	cloud.Pools[0].Offers[0].Values = map[string]string{"flavor": `"med"`, "networks": `["private"]`, "userdata": "(sensitive)", "key_name": `"ci"`}
	cloud.Images = []resources.ProviderImage{{Image: d.Images[0].Ref(),
		Properties: map[string]string{"hw_rng": "true"}, Tags: []string{"ci"}, Values: map[string]string{"visibility": `"private"`}}}
	d.Images[0].Properties, d.Images[0].Tags = map[string]string{"os": "debian", "hw_rng": "false"}, []string{"a"}
	view := o.Providers["cloud"]
	view.Offers = map[OfferKey]OfferView{{"main", "small"}: {ResolvedOffer: resources.ResolvedOffer{
		Values: map[string]string{"flavor": `"medium"`, "flavor_id": `"3"`, "cores": "4"}}}}
	o.Providers["cloud"] = view
	return d, o
}

func plannedOf(t *testing.T, p Plan, action Action) map[string]any {
	t.Helper()
	for _, s := range p.Steps {
		if s.Action != action {
			continue
		}
		values := map[string]any{}
		for name, text := range s.Values {
			var value any
			if err := json.Unmarshal([]byte(text), &value); err != nil {
				t.Fatalf("%s: %s is no JSON: %v", s.ID, name, err)
			}
			values[name] = value
		}
		return values
	}
	t.Fatalf("no step to %s:\n%s", action, lines(p))
	return nil
}

func TestPlannedValues(t *testing.T) {
	d, o := valued()
	p := Compute(d, o, Options{})
	if diff := cmp.Diff(map[string]any{"flavor": "medium", "flavor_id": "3", "cores": 4.0, "networks": []any{"private"},
		"userdata": "(sensitive)", "key_name": "ci", "image": "diskimage.debian"}, plannedOf(t, p, ActionLaunch)); diff != "" {
		t.Errorf("launch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"name": "ci-debian-{timestamp}", "format": "qcow2", "visibility": "private",
		"properties": map[string]any{"os": "debian", "hw_rng": "true"}, "tags": []any{"a", "ci"}}, plannedOf(t, p, ActionUpload)); diff != "" {
		t.Errorf("upload (-want +got):\n%s", diff)
	}
}

func TestPlannedValuesNameExistingImage(t *testing.T) {
	d, o := valued()
	seen := settled()
	o.Records, o.Files = seen.Records, seen.Files
	o.Records.Nodes = o.Records.Nodes[2:]
	o.Records.Uploads[0].Name = "debian-1"
	view := o.Providers["cloud"]
	view.Images = seen.Providers["cloud"].Images
	o.Providers["cloud"] = view
	values := plannedOf(t, Compute(d, o, Options{}), ActionLaunch)
	if values["image_id"] != "image-1" || values["image_name"] != "debian-1" {
		t.Errorf("%v", values)
	}
	d.Providers[0].CloudImages = []resources.CloudImageSpec{{Name: "base"}}
	d.Providers[0].Pools[0].Offers[0].Image = resources.ImageRef{Kind: resources.CloudImage, Name: "base"}
	view.CloudImages = map[string]CloudImageView{"base": {Image: resources.RemoteImage{ID: "77", Name: "Debian 13"}}}
	o.Providers["cloud"] = view
	values = plannedOf(t, Compute(d, o, Options{}), ActionLaunch)
	if values["image"] != "cloud_image.base" || values["image_id"] != "77" || values["image_name"] != "Debian 13" {
		t.Errorf("%v", values)
	}
}

func TestCopyOfTheStateHasTheSameFingerprints(t *testing.T) {
	now := time.Date(2026, 3, 2, 13, 30, 0, 0, time.FixedZone("", 3600))
	record := &resources.Node{ID: "0000000003", State: resources.StateReady, StateTime: now, Labels: []string{"a"}}
	text, err := json.Marshal(record)
	testutil.Must(t, err)
	var copied resources.Node
	testutil.Must(t, json.Unmarshal(text, &copied))
	var here, there Records
	here.Put(record, 17)
	there.Put(&copied, 46)
	at := func(r Records) Fingerprint {
		return (&world{seen: Observed{Records: r}}).fingerprint(record.Key())
	}
	if at(here) != at(there) || at(here) == at(Records{}) {
		t.Errorf("%v, %v, without the record %v", at(here), at(there), at(Records{}))
	}
}
