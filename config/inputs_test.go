package config

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

// Every kind of input is recorded; other files in the directory are not.
func TestChangedInputsAreFound(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	const main = `variable "size" {}
locals {
  key     = file("key.pub")
  extra   = fileexists("extra") ? 1 : 0
  scripts = fileset("scripts", "*.sh")
  motd    = templatefile("motd.tmpl", {})
  size    = var.size
}
`
	testutil.WriteFile(t, at("main.hcl"), main)
	testutil.WriteFile(t, at("key.pub"), "one")
	testutil.WriteFile(t, at("motd.tmpl"), "hello")
	testutil.WriteFile(t, at("a.auto.vars.hcl"), "size = 1\n")
	testutil.WriteFile(t, at("scripts/a.sh"), "")
	values := filepath.Join(t.TempDir(), "values.hcl")
	testutil.WriteFile(t, values, "size = 2\n")
	inputs := &Inputs{}
	load := func() {
		inputs.Begin()
		if _, diags := Load(Options{Path: dir, VarFiles: []string{values}, Inputs: inputs}); !diags.HasErrors() {
			inputs.Complete()
		}
	}
	load()
	for _, test := range []struct{ change, text, want string }{
		{at("npctl.db"), "state", ""},
		{at(".#main.hcl"), "", ""},
		{at("key.pub"), "another", at("key.pub")},
		{at("extra"), "", at("extra")},
		{at("motd.tmpl"), "good day", at("motd.tmpl")},
		{at("a.auto.vars.hcl"), "size = 1000\n", at("a.auto.vars.hcl")},
		{at("b.auto.vars.hcl"), "size = 3\n", at("*.hcl")},
		{at("more.hcl"), "", at("*.hcl")},
		{at("scripts/b.sh"), "", at("scripts/*.sh")},
		{values, "size = 20\n", values},
		{at("main.hcl"), main + "broken", at("main.hcl")},
		{at("key.pub"), "referred to by a configuration with an error", at("key.pub")},
		{at("main.hcl"), "locals {}\nvariable \"size\" {}\n", at("main.hcl")},
		{at("key.pub"), "no longer in use", ""},
	} {
		testutil.WriteFile(t, test.change, test.text)
		want := []string{test.want}
		if test.want == "" {
			want = nil
		}
		if names, _ := inputs.Changes(); !slices.Equal(names, want) {
			t.Errorf("after a change of %s, Changes returns %q, want %q", test.change, names, want)
		}
		load()
		if names, stamps := inputs.Changes(); names != nil || stamps != "" {
			t.Errorf("after a load with %s, %q differ: %s", test.change, names, stamps)
		}
	}
	testutil.Must(t, os.Remove(at("more.hcl")))
	_, first := inputs.Changes()
	testutil.WriteFile(t, at("main.hcl"), "locals {}\nvariable \"size\" {}\n\n")
	if _, second := inputs.Changes(); first == "" || first == second {
		t.Errorf("two different changes have the same text %q", first)
	}
}
