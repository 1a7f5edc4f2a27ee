package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

// FuzzLoad searches for input on which Load panics, or returns neither a configuration nor an error.
func FuzzLoad(f *testing.F) {
	seeds, err := filepath.Glob("testdata/*/*.hcl")
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, path := range seeds {
		src, err := os.ReadFile(path)
		testutil.Must(f, err)
		f.Add(src)
	}
	for _, src := range []string{
		with(nil), everythingFromVariables, bomb(3), "locals { a = yamldecode(\"a: &a [*a]\") }", "variable \"v\" {\n type = object({a = optional(any)})\n default = {}\n}",
		"provider \"acme\" \"p\" {\n dynamic \"pool\" {\n for_each = {a = [1]}\n labels = [pool.key]\n content {\n dynamic \"label\" {\n for_each = pool.value\n content {}\n }\n }\n }\n}",
		"label \"l\" { for_each = diskimage.a }\ndiskimage \"a\" { for_each = label.l }", "locals { a = [for k, v in local : k]... }",
		"label \"l\" { min_ready = 1/0 }", "label \"l\" { min_ready = 1e999999 }", "locals { a = \"${sensitive(\"x\")}\"[0] }",
		"module \"m\" {\n source = \"./m\"\n for_each = {a = 1}\n v = each.value\n}\nlocals { o = module.m[\"a\"].o }",
	} {
		f.Add([]byte(src))
	}
	dir := f.TempDir()
	testutil.WriteFile(f, filepath.Join(dir, "m", "main.hcl"), "variable \"v\" { default = 1 }\nlabel \"l\" { name = \"l${var.v}\" }\noutput \"o\" { value = var.v }\n")
	opts := testOptions(filepath.Join(dir, "main.hcl"))
	opts.Vars = []string{"v=1"}
	f.Fuzz(func(t *testing.T, src []byte) {
		if len(src) > 1<<16 {
			return
		}
		testutil.Must(t, os.WriteFile(opts.Path, src, 0o600))
		result, diags := Load(opts)
		got := text(t, diags, result.Files)
		if strings.Contains(got, internalError) {
			t.Fatalf("panic:\n%s", got)
		}
		JSON(diags, result.Files)
		if len(result.Desired.Digests) == 0 != diags.HasErrors() {
			t.Fatalf("digests %q with:\n%s", result.Desired.Digests, got)
		}
		checked := opts
		checked.CheckOnly, checked.Vars = true, nil
		result, without := Load(checked)
		if got := text(t, without, result.Files); strings.Contains(got, internalError) || without.HasErrors() && !diags.HasErrors() {
			t.Fatalf("valid, but not without values:\n%s", got)
		}
		if _, formatDiags := Format(src, "main.hcl"); !diags.HasErrors() && formatDiags.HasErrors() {
			t.Fatalf("loads and cannot be formatted: %v", formatDiags)
		}
	})
}
