package render

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
)

var updateGolden = flag.Bool("update", false, "rewrite the expected output")

// checkGolden compares got with testdata/render/name.
func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *updateGolden {
		testutil.Must(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; write it with go test ./plan/render -update", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s\nif this is intended: go test ./plan/render -update", path, diff)
	}
}

func textOf(t testing.TB, p plan.Plan, o TextOptions) string {
	t.Helper()
	var b strings.Builder
	testutil.Must(t, Text(&b, p, o))
	return b.String()
}

func markdownOf(t testing.TB, p plan.Plan, limit int) string {
	t.Helper()
	var b strings.Builder
	testutil.Must(t, Markdown(&b, p, limit))
	return b.String()
}
