package config

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

const overriddenConfig = `
npctl {
  images_dir = "images"
}
variable "size" {
  type    = number
  default = 1
}
locals {
  a = 1
  b = 1
}
label "small" {
  min_ready = var.size
}
label "big" {}
diskimage "debian" {
  builder "dib" { elements = ["vm"] }
}
provider "acme" "one" {
  cloud = "x"
  pool "main" {
    max_servers = local.a
    label "small" { image = diskimage.debian }
  }
  pool "other" {
    max_servers = local.b
    label "small" { image = diskimage.debian }
  }
}
`

// withOverrides returns options that load the configuration above with more files.
func withOverrides(t *testing.T, files map[string]string) Options {
	t.Helper()
	files["main.hcl"] = overriddenConfig
	return write(t, files)
}

// An override has the same effect as the same change in the original block.
func TestOverrideFilesReplaceParts(t *testing.T) {
	replace := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(overriddenConfig) }
	const pools = `pool "main" {
    max_servers = local.a
    label "small" { image = diskimage.debian }
  }
  pool "other" {
    max_servers = local.b
    label "small" { image = diskimage.debian }
  }`
	for name, c := range map[string]struct {
		files map[string]string
		same  string
	}{
		"attribute":     {map[string]string{"override.hcl": `label "small" { min_ready = 7 }`}, replace("min_ready = var.size", "min_ready = 7")},
		"new attribute": {map[string]string{"x_override.hcl": `label "big" { min_ready = 7 }`}, replace(`label "big" {}`, `label "big" { min_ready = 7 }`)},
		"JSON":          {map[string]string{"x_override.hcl.json": `{"label": {"small": {"min_ready": "${var.size + 6}"}}}`}, replace("min_ready = var.size", "min_ready = 7")},
		"nested blocks": {map[string]string{"override.hcl": "provider \"acme\" \"one\" {\n pool \"new\" {\n max_servers = 9\n label \"big\" { image = diskimage.debian }\n}\n}"},
			replace(pools, "pool \"new\" {\n max_servers = 9\n label \"big\" { image = diskimage.debian }\n}")},
		"a dynamic block": {map[string]string{"override.hcl": "provider \"acme\" \"one\" {\n dynamic \"pool\" {\n for_each = [\"new\"]\n labels = [pool.value]\n content {\n label \"big\" { image = diskimage.debian }\n}\n}\n}"},
			replace(pools, "pool \"new\" {\n label \"big\" { image = diskimage.debian }\n}")},
		"a local value":          {map[string]string{"override.hcl": "locals {\n b = 5\n}"}, replace("b = 1", "b = 5")},
		"a variable":             {map[string]string{"override.hcl": "variable \"size\" {\n default = 5\n}"}, replace("default = 1", "default = 5")},
		"settings":               {map[string]string{"override.hcl": "npctl {\n images_dir = \"other\"\n}"}, replace(`"images"`, `"other"`)},
		"the last name wins":     {map[string]string{"b_override.hcl": `label "small" { min_ready = 8 }`, "a_override.hcl": `label "small" { min_ready = 9 }`}, replace("min_ready = var.size", "min_ready = 8")},
		"two blocks in one file": {map[string]string{"override.hcl": "label \"small\" { min_ready = 9 }\nlabel \"small\" { min_ready = 8 }"}, replace("min_ready = var.size", "min_ready = 8")},
	} {
		t.Run(name, func(t *testing.T) {
			want := source(t, c.same)
			got := load(t, withOverrides(t, c.files)).Desired
			same(t, "names", names(got), names(want))
			same(t, "digests", got.Digests, want.Digests)
			if base := source(t, overriddenConfig); base.Digests[0] == got.Digests[0] {
				t.Error("the override has no effect")
			}
		})
	}
}

func TestErrorsInOverridesNameBothPlaces(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"value":         {"# a comment\nlabel \"small\" {\n min_ready = \"x\"\n}", []string{"override.hcl line 3", "This overrides", "main.hcl:13"}},
		"missing":       {`label "smal" {}`, []string{"override.hcl line 1", `No other file has the block label "smal"`}},
		"other driver":  {`provider "static" "one" {}`, []string{`No other file has the block provider "static" "one"`}},
		"local value":   {"locals {\n c = 1\n}", []string{"override.hcl line 2", `No other file has the local value "c"`}},
		"cycle":         {"locals {\n a = local.b\n b = local.a\n}", []string{"Reference cycle", "This overrides", "main.hcl:10"}},
		"unlabelled":    {`moved {}`, []string{`Blocks of the type "moved" have no labels`}},
		"unknown block": {`lable "small" {}`, []string{"override.hcl line 1", `no block of type "lable"`}},
		"left part":     {"provider \"acme\" \"one\" {\n pool \"main\" {\n max_servers = 1\n label \"big\" { image = cloud_image.x }\n}\n}", []string{"override.hcl line 4", "This overrides", "main.hcl:20"}},
		"original part": {"variable \"size\" {\n type = list(string)\n}", []string{"main.hcl line 7", "This is overridden at", "override.hcl:1"}},
		"syntax":        {`label "small" {`, []string{"override.hcl line 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			wantText(t, loadErrors(t, withOverrides(t, map[string]string{"override.hcl": c.text})), c.want...)
		})
	}
}

func TestOverrideFilesAloneAreNoConfiguration(t *testing.T) {
	opts := write(t, map[string]string{"override.hcl": `label "small" {}`})
	wantText(t, loadErrors(t, opts), "No configuration")
	opts.Path = filepath.Join(opts.Path, "override.hcl")
	load(t, opts) // a file that is named is a configuration
}

func TestChangeOfOverrideFileIsNoticed(t *testing.T) {
	opts := withOverrides(t, map[string]string{"override.hcl": `label "small" { min_ready = 7 }`})
	opts.Inputs = &Inputs{}
	opts.Inputs.Begin()
	load(t, opts)
	opts.Inputs.Complete()
	if names, _ := opts.Inputs.Changes(); len(names) != 0 {
		t.Fatalf("changed: %q", names)
	}
	testutil.WriteFile(t, filepath.Join(opts.Path, "override.hcl"), `label "small" { min_ready = 77 }`)
	testutil.WriteFile(t, filepath.Join(opts.Path, "more_override.hcl.json"), `{}`)
	names, _ := opts.Inputs.Changes()
	same(t, "changed", names, []string{filepath.Join(opts.Path, "*.hcl"), filepath.Join(opts.Path, "override.hcl")})
}
