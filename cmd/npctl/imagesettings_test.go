package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/config"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// otherSettings are lines of image blocks that change no upload: of the language, and of drivers.
var otherSettings = []string{`pause = true`, `properties = { a = "b" }`, `tags = ["a"]`, `username = "other"`, `python_path = "/usr/bin/python"`,
	`shell_type = "sh"`, `connection_type = "winrm"`, `connection_port = 2222`, `import_method = "image"`}

// TestEveryReplacingSettingOfAnImageReplacesItsUpload changes each attribute of the image blocks of all drivers, which
// testdata/hashes sets, in a settled world.
func TestEveryReplacingSettingOfAnImageReplacesItsUpload(t *testing.T) {
	text := testutil.ReadFile(t, "testdata/hashes/npctl.hcl")
	reg := newRegistry()
	for kind, d := range reg.driverSchemas() {
		if len(d.Image.Attributes) == 0 {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			block := regexp.MustCompile(`(?s)\nprovider "` + kind + `" "\w+" \{\n(?:  [^\n]*\n|\n)*?  image "exec" \{\n(.*?)\n  \}\n`).FindStringSubmatchIndex(text)
			if block == nil {
				t.Fatal("testdata/hashes/npctl.hcl has no image block")
			}
			inside := append(strings.Split(text[block[2]:block[3]], "\n"), "upload = true") // without a label that boots from it
			with := func(lines []string) resources.Desired {
				return loadText(t, reg, text[:block[2]]+strings.Join(lines, "\n")+text[block[3]:])
			}
			before := with(inside)
			if changes := uploadsIn(before, before, kind); len(changes) > 0 {
				t.Fatalf("nothing has changed: %v", changes)
			}
			for _, attr := range d.Image.Attributes {
				at := slices.IndexFunc(inside, func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), attr.Name+" ") })
				if attr.Class != schema.Replacing {
					if !slices.ContainsFunc(otherSettings, func(line string) bool { return strings.HasPrefix(line, attr.Name+" ") }) {
						t.Errorf("otherSettings have no %s", attr.Name)
					}
					continue
				}
				if at < 0 {
					t.Errorf("testdata/hashes/npctl.hcl does not set %s", attr.Name)
					continue
				}
				changed := slices.Delete(slices.Clone(inside), at, at+1)
				if attr.Required {
					changed = append(changed, attr.Name+` = "another"`)
				}
				if changes := uploadsIn(before, with(changed), kind); !slices.Contains(changes, attr.Name) {
					t.Errorf("%s changes, and the plan uploads because of %q", attr.Name, changes)
				}
			}
			for _, line := range otherSettings {
				name, _, _ := strings.Cut(line, " ")
				if name == "import_method" && kind != "aws" {
					continue
				}
				if changes := uploadsIn(before, with(append(slices.Clone(inside), line)), kind); len(changes) > 0 {
					t.Errorf("%s changes, and the plan uploads because of %q", name, changes)
				}
			}
		})
	}
}

func loadText(t *testing.T, reg registry, text string) resources.Desired {
	t.Helper()
	path := filepath.Join(t.TempDir(), "npctl.hcl")
	testutil.WriteFile(t, path, text)
	result, diags := config.Load(config.Options{Path: filepath.Dir(path), Drivers: reg.driverSchemas(), Builders: reg.builderSchemas(), States: reg.states})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return result.Desired
}

// uploadsIn returns the attributes because of which a plan of the present configuration uploads the image of the providers of a
// driver again, which has been uploaded with an earlier configuration.
func uploadsIn(before, now resources.Desired, kind string) (changes []string) {
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	i := slices.IndexFunc(before.Providers, func(p resources.Provider) bool { return p.Driver == kind && len(p.Images) > 0 })
	p, image := before.Providers[i], before.Image("exec")
	hashes, static := p.ImageSettings(image.Ref())
	seen := plan.Observed{Now: at, Installation: "here", Formats: map[string]string{p.Name: "raw"}, Records: plan.Records{
		Builds: []*resources.Build{{ID: strings.Repeat("1", 32), Image: "exec", Kind: resources.DiskImage, State: resources.StateReady, StateTime: at, Hash: image.Hashes.Current(),
			Files: []resources.ImageFile{{Format: "raw", Name: "exec-" + strings.Repeat("1", 32) + ".raw"}}}},
		Uploads: []*resources.Upload{{ID: "1", Image: "exec", Build: strings.Repeat("1", 32), Provider: p.Name, State: resources.StateReady, StateTime: at, ExternalID: "i",
			Settings: hashes.Current()}},
		Templates: []*resources.Template{{Hash: hashes.Current(), Static: static}},
	}}
	for _, s := range plan.Compute(now, seen, plan.Options{}).Steps {
		if s.Kind != plan.KindUpload || s.Provider != p.Name || s.Image != "exec" {
			continue
		}
		for _, c := range s.Changes {
			changes = append(changes, c.Attribute)
		}
		if len(s.Changes) == 0 {
			changes = append(changes, fmt.Sprint("no attribute, reason ", s.Reason))
		}
	}
	return changes
}
