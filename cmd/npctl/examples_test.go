package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/npctl/npctl/config"
	"github.com/npctl/npctl/examples"
	"github.com/npctl/npctl/internal/testutil"
)

const examplesDir = "../../examples"

func TestStartersExist(t *testing.T) {
	for _, s := range starterKinds {
		if _, err := examples.Files.ReadFile(s.file); err != nil {
			t.Errorf("init -from=%s: %v", s.kind, err)
		}
	}
}

func TestEveryExampleHasItsTest(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(examplesDir, "*.hcl"))
	if err != nil || len(paths) < 4 {
		t.Fatalf("examples are %q, %v", paths, err)
	}
	script := testutil.ReadFile(t, "testdata/script/examples.txtar")
	for _, path := range paths {
		if !strings.Contains(script, "$EXAMPLES/"+filepath.Base(path)) {
			t.Errorf("examples.txtar does nothing with %s", path)
		}
	}
}

// A valid configuration stays valid when its variables lose their defaults.
func TestValidConfigurationsAreValidWithoutDefaults(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(examplesDir, "*.hcl"))
	if err != nil || len(files) < 4 {
		t.Fatalf("files are %q, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			content, err := os.ReadFile(file)
			testutil.Must(t, err)
			dir := t.TempDir()
			testutil.Must(t, os.WriteFile(filepath.Join(dir, "npctl.hcl"), withoutDefaults(t, content), 0o600))
			reg := newRegistry()
			result, diags := config.Load(config.Options{Path: dir, CheckOnly: true,
				Drivers: reg.driverSchemas(), Builders: reg.builderSchemas(), States: reg.states})
			if len(diags) > 0 {
				config.WriteDiagnostics(os.Stderr, diags, result.Files, false, 0)
				t.Error("found mistakes")
			}
		})
	}
}

func withoutDefaults(t *testing.T, content []byte) []byte {
	t.Helper()
	file, diags := hclwrite.ParseConfig(content, "", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	for _, block := range file.Body().Blocks() {
		if block.Type() == "variable" {
			block.Body().RemoveAttribute("default")
		}
	}
	return file.Bytes()
}
