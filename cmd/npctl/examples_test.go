package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const examplesDir = "../../examples"

func TestStartersAreTheExamples(t *testing.T) {
	for from, name := range starterFiles {
		want, err := os.ReadFile(filepath.Join(examplesDir, name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := starters.ReadFile("starter/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("init -from=%s writes something else than examples/%s (-example +starter): cp %s/%s starter/\n%s",
				from, name, examplesDir, name, diff)
		}
	}
}

func TestEveryExampleHasItsTest(t *testing.T) {
	examples, err := filepath.Glob(filepath.Join(examplesDir, "*.hcl"))
	if err != nil || len(examples) < 4 {
		t.Fatalf("examples are %q, %v", examples, err)
	}
	script, err := os.ReadFile("testdata/script/examples.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range examples {
		if !strings.Contains(string(script), "$EXAMPLES/"+filepath.Base(path)) {
			t.Errorf("examples.txtar does nothing with %s", path)
		}
	}
}
