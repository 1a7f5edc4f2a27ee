package reconcile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
)

func TestConsolesArePruned(t *testing.T) {
	dir, now := t.TempDir(), time.Unix(1_700_000_000, 0)
	write := func(name string, age time.Duration) {
		t.Helper()
		path := filepath.Join(dir, name)
		testutil.WriteFile(t, path, "login:")
		testutil.Must(t, os.Chtimes(path, now.Add(-age), now.Add(-age)))
	}
	console := func(i int) string { return fmt.Sprintf("node-%010d-attempt-1%s", i, consoleEnd) }
	write("debian-12345abcde.log", 2*consolesAge) // of a build
	write("notes.txt", 2*consolesAge)
	write("db01.console.log", 2*consolesAge) // of libvirt
	write(console(9000), consolesAge+time.Second)
	write(console(9001), consolesAge-time.Second)
	pruneConsoles(dir, now)
	if got, want := names(t, dir), []string{"db01.console.log", "debian-12345abcde.log", console(9001), "notes.txt"}; !slices.Equal(got, want) {
		t.Errorf("files are %q, want %q", got, want)
	}
	for i := range consolesKept + 50 {
		write(console(i), time.Duration(i)*time.Second)
	}
	pruneConsoles(dir, now)
	got := names(t, dir)
	if n := len(got) - 3; n != consolesKept-1 {
		t.Errorf("%d consoles are left, want %d and room for one", n, consolesKept-1)
	}
	if newest, old := console(0), console(consolesKept); !slices.Contains(got, newest) || slices.Contains(got, old) {
		t.Errorf("%s has to be there and %s not: %q", newest, old, got)
	}
}

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	testutil.Must(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
