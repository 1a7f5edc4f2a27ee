package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// write creates files in a new directory and returns options that load it.
func write(t testing.TB, files map[string]string) Options {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		testutil.Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		testutil.WriteFile(t, path, content)
	}
	return testOptions(dir)
}

// load loads a configuration and fails the test on errors.
func load(t *testing.T, opts Options) *Result {
	t.Helper()
	result, diags := Load(opts)
	if diags.HasErrors() {
		t.Fatalf("unexpected errors:\n%s", text(t, diags, result.Files))
	}
	return result
}

// source loads one file and fails the test on errors.
func source(t *testing.T, content string) resources.Desired {
	t.Helper()
	return load(t, write(t, map[string]string{"main.hcl": content})).Desired
}

// loadErrors loads a configuration that must have errors and returns them as the user sees them.
func loadErrors(t *testing.T, opts Options) string {
	t.Helper()
	result, diags := Load(opts)
	if !diags.HasErrors() {
		t.Fatalf("no errors, but: %s", text(t, diags, result.Files))
	}
	got := text(t, diags, result.Files)
	if strings.Contains(got, internalError) {
		t.Fatalf("internal error:\n%s", got)
	}
	return got
}

func wantText(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, part := range want {
		if !strings.Contains(got, part) {
			t.Errorf("missing %q in:\n%s", part, got)
		}
	}
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// dump returns a whole configuration as JSON, with the values that drivers and builders receive.
func dump(t *testing.T, d resources.Desired) string {
	t.Helper()
	transform := func(v cty.Value) any {
		if v == cty.NilVal {
			return nil
		}
		raw, err := ctyjson.Marshal(v, v.Type())
		testutil.Must(t, err)
		return json.RawMessage(raw)
	}
	type any2 = map[string]any
	var tree any2
	raw, err := json.Marshal(d)
	if err == nil {
		err = json.Unmarshal(raw, &tree)
	}
	testutil.Must(t, err)
	tree["Settings"].(any2)["Dir"] = "DIR"
	tree["Settings"].(any2)["State"].(any2)["Config"] = transform(d.Settings.State.Config)
	for i, image := range d.Images {
		tree["Images"].([]any)[i].(any2)["Config"] = transform(image.Config)
	}
	for i, p := range d.Providers {
		provider := tree["Providers"].([]any)[i].(any2)
		provider["Config"] = transform(p.Config)
		for j, image := range p.CloudImages {
			provider["CloudImages"].([]any)[j].(any2)["Config"] = transform(image.Config)
		}
		for j, image := range p.Images {
			provider["Images"].([]any)[j].(any2)["Config"] = transform(image.Config)
		}
		for j, pool := range p.Pools {
			pools := provider["Pools"].([]any)[j].(any2)
			pools["Config"] = transform(pool.Config)
			for k, offer := range pool.Offers {
				pools["Offers"].([]any)[k].(any2)["Config"] = transform(offer.Config)
			}
			for k, node := range pool.Nodes {
				pools["Nodes"].([]any)[k].(any2)["Config"] = transform(node.Config)
			}
		}
	}
	pretty, err := json.MarshalIndent(tree, "", "  ")
	testutil.Must(t, err)
	return string(pretty) + "\n"
}

// text renders diagnostics as the user sees them, without colours.
func text(t testing.TB, diags hcl.Diagnostics, files map[string]*hcl.File) string {
	t.Helper()
	var b strings.Builder
	for _, diag := range diags { // one by one, because WriteDiagnostics shows only the first ones
		WriteDiagnostics(&b, hcl.Diagnostics{diag}, files, false, 0)
	}
	return b.String()
}

var sprintf = fmt.Sprintf
