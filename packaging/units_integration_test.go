//go:build integration

package packaging_test

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

// TestSystemdUnderstandsTheUnits verifies the units with systemd itself, which knows every name and value.
// test/systemd/run.sh runs it.
func TestSystemdUnderstandsTheUnits(t *testing.T) {
	const analyze = "systemd-analyze"
	dir := t.TempDir()
	var copies []string
	for _, file := range units(t) {
		text := testutil.ReadFile(t, file)
		to := filepath.Join(dir, filepath.Base(file))
		testutil.WriteFile(t, to, strings.ReplaceAll(text, "/usr/bin/npctl", npctl))
		copies = append(copies, to)
	}
	out, err := exec.CommandContext(t.Context(), analyze, append([]string{"verify", "--man=no", "--recursive-errors=no"}, copies...)...).CombinedOutput()
	if err != nil || bytes.Contains(out, []byte("npctl")) {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	out, err = exec.CommandContext(t.Context(), analyze, "security", "--offline=yes", "--threshold=20", filepath.Join(dir, "npctl-watch.service")).CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze security: more than 2.0 of 10: %v\n%s", err, out)
	}
}
