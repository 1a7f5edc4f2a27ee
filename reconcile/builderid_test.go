package reconcile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

func builderEngine(t *testing.T) (e *Engine, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "images")
	return &Engine{Options: Options{Desired: resources.Desired{Settings: resources.Settings{ImagesDir: dir}}}}, dir
}

func TestBuilderIDStays(t *testing.T) {
	t.Parallel()
	e, dir := builderEngine(t)
	id, err := e.BuilderID()
	if err != nil || len(id) != 36 {
		t.Fatalf("%q, %v", id, err)
	}
	if again, err := e.BuilderID(); again != id || err != nil {
		t.Errorf("then %q, %v; want %s", again, err, id)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v, %v", entries, err)
	}
}

func TestBuilderIDOfNodepoolIsKept(t *testing.T) {
	t.Parallel()
	const id = "3f1c6a52-6c37-4a3e-9f63-0c2cf5b9a0f4"
	for name, tc := range map[string]struct{ text, want, err string }{
		"as Nodepool writes it": {id, id, ""},
		"with a line end":       {id + "\n", id, ""},
		"damaged":               {"x", "", "delete the file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, dir := builderEngine(t)
			testutil.Must(t, os.MkdirAll(dir, 0o700))
			testutil.WriteFile(t, filepath.Join(dir, BuilderIDFile), tc.text)
			got, err := e.BuilderID()
			if got != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}
