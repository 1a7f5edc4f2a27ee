package config

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/testutil"
)

var update = flag.Bool("update", false, "update the expected texts")

// golden compares text with a file, or updates the file with -update.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		testutil.WriteFile(t, path, got)
		return
	}
	want, err := os.ReadFile(path)
	testutil.Must(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; run with -update to update it):\n%s", path, diff)
	}
}

// Every file of testdata/mistakes contains errors; the file beside it holds the complete output.
func TestErrorsAreReportedTogetherWithPositionAndHint(t *testing.T) {
	files, err := filepath.Glob("testdata/mistakes/*.hcl*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			result, diags := Load(testOptions(file))
			dir, _ := filepath.Abs("testdata")
			got := strings.ReplaceAll(text(t, diags, result.Files), dir, "DIR")
			golden(t, strings.TrimSuffix(strings.TrimSuffix(file, ".json"), ".hcl")+".txt", got)
		})
	}
}
