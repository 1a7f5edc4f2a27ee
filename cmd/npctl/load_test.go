package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

func TestUnreadableDirectoryIsNotReportedAsEmpty(t *testing.T) {
	if err := checkThere(t.TempDir()); err == nil || !strings.Contains(err.Error(), "there is no configuration in") {
		t.Errorf("an empty directory: %v", err)
	}
	if os.Getuid() == 0 {
		t.Log("root: every directory can be read")
		return
	}
	dir := t.TempDir()
	testutil.Must(t, os.WriteFile(filepath.Join(dir, "npctl.hcl"), nil, 0o600))
	testutil.Must(t, os.Chmod(dir, 0o300))
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
	if err := checkThere(dir); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("a directory that cannot be read: %v", err)
	}
}
