package sandbox_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/sandbox/sandboxcloud"
	"github.com/npctl/npctl/internal/testutil"
)

func TestNewSandboxReadsOnlyNeighbouringSandboxes(t *testing.T) {
	dir := t.TempDir()
	opened := func(name string) (log string) {
		t.Helper()
		var b strings.Builder
		env := drivers.Env{Provider: name, Dir: filepath.Join(dir, name),
			Log: slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug}))}
		c, err := driver().Open(t.Context(), env, providerConfig(nil))
		testutil.Must(t, err)
		testutil.Must(t, c.Close())
		return b.String()
	}
	opened("one")
	broken := filepath.Join(dir, "broken", "sandbox.json") // logged on every read
	testutil.Must(t, os.MkdirAll(filepath.Dir(broken), 0o700))
	testutil.WriteFile(t, broken, "{")
	for _, read := range []bool{true, false} { // the first call creates the sandbox
		if log := opened("two"); strings.Contains(log, broken) != read {
			t.Errorf("the file of another sandbox is read: %t, want %t; log:\n%s", !read, read, log)
		}
	}
	for name, want := range map[string]int{"one": 0, "two": 1} {
		if n, ok, err := sandboxcloud.RangeOf(filepath.Join(dir, name, "sandbox.json")); n != want || !ok || err != nil {
			t.Errorf("sandbox %s has address range %d, %t, %v; want %d", name, n, ok, err, want)
		}
	}
}
