package host

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

func TestUnfinishedFilesAreThoseOfReplaceFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "machine.json")
	unfinished := filepath.Join(dir, ".machine.json8129372")
	for _, name := range []string{".machine.json8129372", "machine.json", "machine.json1", ".machine.json", ".machine.json.swp", ".machine.json1/x"} {
		testutil.WriteFile(t, filepath.Join(dir, name), "")
	}
	testutil.Must(t, ReplaceFile(path, []byte("{}"), 0o600))
	if got := Unfinished(path); !slices.Equal(got, []string{unfinished}) {
		t.Errorf("unfinished files are %q, want %s", got, unfinished)
	}
}
