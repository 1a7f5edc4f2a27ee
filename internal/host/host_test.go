package host

import (
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

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

func TestThreadTimeGrowsWithWorkOnly(t *testing.T) {
	used := ThreadTime()
	if used == nil {
		t.Skip("this system does not measure the CPU time of a thread")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := used()
	time.Sleep(20 * time.Millisecond)
	asleep := used() - before
	sum := 0
	for used()-before-asleep < 20*time.Millisecond {
		for i := range 1000 {
			sum += i * i
		}
	}
	if asleep > 10*time.Millisecond {
		t.Errorf("a sleep of 20 ms counts as %s of work (%d)", asleep, sum)
	}
}
