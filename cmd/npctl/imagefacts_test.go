package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func buildID(digit string) string { return strings.Repeat(digit, 32) }

// imageSample returns a state with image debian, which has two providers and three builds, and image gone without a
// block in the configuration.
func imageSample() imageState {
	debian := resources.ImageRef{Kind: resources.DiskImage, Name: "debian"}
	offering := func(name string, images ...resources.ProviderImage) resources.Provider {
		return resources.Provider{Name: name, Images: images, Pools: []resources.Pool{{Name: "main",
			Offers: []resources.Offer{{Label: "small", Image: debian}, {Label: "big", Image: debian}}}}}
	}
	build := func(id string, state resources.State, hours int) *resources.Build {
		at := noon.Add(time.Duration(-hours) * time.Hour)
		return &resources.Build{ID: buildID(id), Image: "debian", Kind: resources.DiskImage, State: state, StateTime: at, Created: at, Builder: "dib",
			Host: "b1", Seconds: 600, Files: []resources.ImageFile{{Format: "qcow2", Name: "debian-" + buildID(id) + ".qcow2", Size: 1 << 30, SHA256: "aa"}}}
	}
	upload := func(id, provider, build string, state resources.State) *resources.Upload {
		return &resources.Upload{ID: id, Image: "debian", Build: buildID(build), Provider: provider, State: state, StateTime: noon, Created: noon,
			Format: "qcow2", ExternalID: "cloud-" + id, Name: "debian-" + id, Size: 1 << 30, Seconds: 60}
	}
	return imageState{ImageInput: inspect.ImageInput{Fleet: inspect.Fleet{
		Desired: resources.Desired{
			Images: []resources.Image{{Name: "debian", Kind: resources.DiskImage, Builder: "dib", Keep: 2, RebuildAge: 24 * time.Hour, Formats: []string{"vhd"},
				Source: resources.Source{File: "npctl.hcl", Line: 3}, PreventDestroy: true}},
			Providers: []resources.Provider{offering("acme"), offering("rax", resources.ProviderImage{Image: debian, Pause: true})},
		},
		Observed: plan.Observed{Formats: map[string]string{"acme": "qcow2", "rax": "vhd"}, Records: plan.Records{
			Images: []*resources.ImageRecord{{Name: "debian", Kind: resources.DiskImage, Paused: true, PauseReason: "mirror is broken",
				Failure: &resources.Failure{Count: 3, Time: noon.Add(-time.Hour), Error: "exit status 1\nlast lines", Build: buildID("f"), Kind: resources.FaultRejected},
				Uploads: map[string]*resources.Failure{"rax": {Count: 1, Time: noon, Error: "403"}}}},
			Builds: []*resources.Build{build("1", resources.StateReady, 30), build("2", resources.StateReady, 5), build("3", resources.StateBuilding, 0),
				{ID: buildID("9"), Image: "gone", Kind: resources.ZuulImage, State: resources.StateReady, StateTime: noon, Created: noon, Version: "v7", Remote: true,
					Files: []resources.ImageFile{{Format: "raw", Name: "gone.raw"}}}},
			Uploads: []*resources.Upload{upload("0000000003", "rax", "1", resources.StateReady), upload("0000000002", "acme", "1", resources.StateReady),
				upload("0000000004", "acme", "2", resources.StateReady), upload("0000000005", "old", "1", resources.StateFailed)},
			Nodes: []*resources.Node{{ID: "1", Upload: "0000000004"}, {ID: "2", Upload: "0000000004"}, {ID: "3", Upload: "0000000003"}, {ID: "4", Static: true}},
		}}},
		Next: plan.Plan{
			Steps: []plan.Step{{Address: "provider.acme.image.debian", Kind: plan.KindUpload, Reason: plan.ReasonNotUploaded, Image: "debian"},
				{Address: "node.1", Kind: plan.KindDeleteNode, Image: "debian"}},
			Notes:    []plan.Note{{Severity: plan.Info, Code: "paused", Address: "diskimage.debian", Text: "it is paused"}, {Code: "other", Address: "diskimage.debian-11"}},
			Problems: []plan.Problem{{Address: "provider.rax.image.debian", Text: "no room"}, {Address: "provider.rax", Text: "away"}},
		},
		OnDisk: func(file string) (int64, bool) { return 4096, strings.HasPrefix(file, "debian-2") },
		Log:    func(image, build string) string { return "logs/" + image + "-" + build[:1] },
	}}
}

func TestImageViewHasStatusOfEachProvider(t *testing.T) {
	facts := imageSample().Images()
	if len(facts) != 2 || facts[0].Name != "debian" || facts[1].Name != "gone" {
		t.Fatalf("images: %v", facts)
	}
	debian, gone := facts[0], facts[1]
	want := []inspect.ImageProvider{
		{Name: "acme", Wanted: true, Format: "qcow2", Upload: "0000000004", Build: buildID("2"), Newest: true},
		{Name: "old"},
		{Name: "rax", Wanted: true, Paused: true, Format: "vhd", Upload: "0000000003", Build: buildID("1")},
	}
	if diff := cmp.Diff(want, debian.Providers); diff != "" {
		t.Errorf("providers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"ready": 2, "building": 1}, debian.Counts); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if debian.Newest.ID != buildID("2") || !debian.Due.Equal(noon.Add(19*time.Hour)) || !debian.Protected {
		t.Errorf("newest %s, due %s, protected %t", debian.Newest.ID, debian.Due, debian.Protected)
	}
	if diff := cmp.Diff(&inspect.ImagePause{Command: true, Reason: "mirror is broken"}, debian.Pause); diff != "" {
		t.Errorf("pause (-want +got):\n%s", diff)
	}
	if gone.Configured || gone.Kind != resources.ZuulImage || gone.Due != nil || gone.Builds[0].Files[0].Missing || gone.Builds[0].Files[0].OnDisk != nil {
		t.Errorf("the one that is gone: %+v", gone)
	}
}

func TestImageViewHasUploadsFilesAndFailures(t *testing.T) {
	debian := imageSample().Image(resources.ImageRef{Kind: resources.DiskImage, Name: "debian"})
	var uploads []string
	nodes := 0
	for _, u := range debian.Uploads {
		mark := ""
		if u.Current {
			mark = "*"
		}
		uploads = append(uploads, u.Provider+" "+u.ID+mark)
		nodes += u.Nodes
	}
	if diff := cmp.Diff([]string{"acme 0000000004*", "acme 0000000002", "old 0000000005", "rax 0000000003*"}, uploads); diff != "" || nodes != 3 {
		t.Errorf("%d nodes, uploads (-want +got):\n%s", nodes, diff)
	}
	if two, one := debian.Builds[1].Files[0], debian.Builds[2].Files[0]; two.Missing || *two.OnDisk != 4096 || !one.Missing || one.OnDisk != nil {
		t.Errorf("files: %+v, %+v", two, one)
	}
	want := []inspect.ImageFailure{
		{What: "upload", Provider: "old", Time: noon, Count: 1, Build: buildID("1"), Log: "logs/debian-1"},
		{What: "upload", Provider: "rax", Time: noon, Count: 1, Error: "403"},
		{What: "build", Time: noon.Add(-time.Hour), Count: 3, Error: "exit status 1\nlast lines", Build: buildID("f"), Log: "logs/debian-f", Kind: resources.FaultRejected},
	}
	if diff := cmp.Diff(want, debian.Failures); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
	if len(debian.Next) != 1 || debian.Next[0].Text != "the provider does not have the newest build" {
		t.Errorf("next steps: %+v", debian.Next)
	}
	if diff := cmp.Diff([]inspect.ImageNote{{Severity: plan.Info, Code: "paused", Text: "it is paused"}, {Severity: plan.Warning, Code: "problem", Text: "no room"}}, debian.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

func TestAnImageInOneLine(t *testing.T) {
	facts := imageSample().Images()
	want := []string{"debian", "diskimage", "2 ready, 1 building", "22222222", "5h", "qcow2", "1 of 3", "by command", "",
		"upload to old failed 0s ago (and 2 more)"}
	if diff := cmp.Diff(want, imageRow(&facts[0], true, noon)); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
	if row := imageRow(&facts[1], true, noon); row[9] != "not configured any more" {
		t.Errorf("the one that is gone: %q", row)
	}
	if row := imageRow(&facts[1], false, noon); row[9] != "" {
		t.Errorf("nobody knows whether it is gone: %q", row)
	}
}

func TestHeadlineOmitsDetails(t *testing.T) {
	for text, want := range map[string]string{
		"sh ended with exit code 3; the last lines of its output:\n  a\n  b": "sh ended with exit code 3",
		"one line: with a colon":    "one line: with a colon",
		"refused; because of this:": "refused; because of this:",
		"first\nsecond":             "first",
	} {
		if got := headline(text); got != want {
			t.Errorf("headline(%q) = %q, want %q", text, got, want)
		}
	}
}

func imageSchema(t *testing.T, pointer string) *jsonschema.Schema {
	t.Helper()
	return publishedSchema(t, "images.json", pointer)
}

// publishedSchema returns a part of a published schema. It rejects fields that the schema does not describe.
func publishedSchema(t *testing.T, name, pointer string) *jsonschema.Schema {
	t.Helper()
	file, err := os.Open(filepath.Join("../../docs/schemas", name))
	testutil.Must(t, err)
	defer file.Close() //nolint:errcheck // read-only file
	doc, err := jsonschema.UnmarshalJSON(file)
	testutil.Must(t, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	testutil.Must(t, c.AddResource(name, closedSchema(doc)))
	schema, err := c.Compile(name + pointer)
	testutil.Must(t, err)
	return schema
}

func closedSchema(node any) any {
	switch n := node.(type) {
	case map[string]any:
		for key, value := range n {
			n[key] = closedSchema(value)
		}
		if _, described := n["properties"].(map[string]any); described {
			n["additionalProperties"] = false
		}
	case []any:
		for i := range n {
			n[i] = closedSchema(n[i])
		}
	}
	return node
}

func checkDocument(t *testing.T, schema *jsonschema.Schema, name string, document any) {
	t.Helper()
	text, err := json.Marshal(document)
	testutil.Must(t, err)
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	testutil.Must(t, err)
	if err := schema.Validate(value); err != nil {
		t.Errorf("%s: %v\n%s", name, err, text)
	}
}

func TestImageDocumentsMatchTheSchema(t *testing.T) {
	schema := imageSchema(t, "")
	world := imageSample()
	checkDocument(t, schema, "show", versioned{document(world, world.Images())})
	checkDocument(t, schema, "nothing", versioned{document(imageState{}, nil)})
	records := imageSample()
	records.Desired, records.configError = resources.Desired{}, hint(errors.New("no configuration"), "write one")
	checkDocument(t, schema, "records", versioned{document(records, records.Images())})
	checkDocument(t, imageSchema(t, "#/$defs/pause_report"), "pause",
		versioned{map[string]any{"images": []pauseFacts{{Name: "a", Address: "diskimage.a", Paused: true, Changed: true, Pause: &inspect.ImagePause{Command: true, Reason: "why"}}}}})
	text := "line"
	for _, e := range []logEvent{{Type: "start", FormatVersion: jsonVersion, Image: "a", Build: "b", Path: "c", State: resources.StateBuilding},
		{Type: "line", Text: &text}, {Type: "end", State: resources.StateFailed, Message: "why"}, {Type: "error", Message: "no", Hint: "yes"}} {
		checkDocument(t, imageSchema(t, "#/$defs/log_event"), "log", e)
	}
}
