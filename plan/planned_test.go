package plan

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/itchyny/gojq"

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
	var report struct {
		Steps []struct {
			Action Action         `json:"action"`
			Values map[string]any `json:"planned_values"`
		} `json:"steps"`
	}
	if err := json.Unmarshal(renderReport(t, p), &report); err != nil {
		t.Fatal(err)
	}
	for _, s := range report.Steps {
		if s.Action == action {
			return s.Values
		}
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
	launch := `with cores 4, flavor "medium", flavor_id "3", image "diskimage.debian", key_name "ci", networks ["private"], userdata "(sensitive)"`
	upload := `with format "qcow2", name "ci-debian-{timestamp}", properties {"hw_rng":"true","os":"debian"}, tags ["a","ci"], visibility "private"`
	for name, text := range map[string]string{"text": renderText(t, p, TextOptions{Verbose: true}), "Markdown": renderMarkdownText(t, p, 0)} {
		if !strings.Contains(text, launch) || !strings.Contains(text, upload) {
			t.Errorf("%s lacks %s\nor %s:\n%s", name, launch, upload, text)
		}
	}
	if text := renderText(t, p, TextOptions{}); strings.Contains(text, "with ") {
		t.Errorf("without -verbose:\n%s", text)
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

func TestDifferentPlannedValuesMakePlanStale(t *testing.T) {
	d, o := valued()
	saved := File{Plan: Compute(d, o, Options{})}
	view := o.Providers["cloud"]
	view.Offers = map[OfferKey]OfferView{{"main", "small"}: {ResolvedOffer: resources.ResolvedOffer{
		Values: map[string]string{"flavor": `"medium"`, "flavor_id": `"4"`, "cores": "4"}}}}
	o.Providers["cloud"] = view
	now := Compute(d, o, Options{})
	if why := saved.Stale(now, &o.Records); len(why) != 1 || why[0].Why != `flavor_id was "3", is now "4"` {
		t.Errorf("%v", why)
	}
	saved.Meta.Options.NoRefresh = true
	if why := saved.Stale(now, &o.Records); len(why) != 0 {
		t.Errorf("made with -refresh=false: %v", why)
	}
}

// TestPolicyInDocs runs the policy of docs/plan-json.md.
func TestPolicyInDocs(t *testing.T) {
	page, err := os.ReadFile("../docs/plan-json.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "<!-- policy -->\n\n```jq\n")
	program, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/plan-json.md has no policy")
	}
	query, err := gojq.Parse(program)
	if err != nil {
		t.Fatal(err)
	}
	for flavor, want := range map[string]string{`"medium"`: "", `"large"`: "provider.cloud.pool.main.label.small: flavor large, image diskimage.debian"} {
		d, o := valued()
		delete(o.Providers["cloud"].Offers[OfferKey{"main", "small"}].Values, "flavor")
		d.Providers[0].Pools[0].Offers[0].Values["flavor"] = flavor
		var report any
		if err := json.Unmarshal(renderReport(t, Compute(d, o, Options{})), &report); err != nil {
			t.Fatal(err)
		}
		var got []string
		for iter := query.Run(report); ; {
			value, more := iter.Next()
			if !more {
				break
			}
			if err, failed := value.(error); failed {
				t.Fatal(err)
			}
			got = append(got, value.(string))
		}
		if strings.Join(got, "\n") != want {
			t.Errorf("flavor %s: the policy says %q, want %q", flavor, got, want)
		}
	}
}
