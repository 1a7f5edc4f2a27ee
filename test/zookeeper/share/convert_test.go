//go:build integration

package share

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

// TestConvertedConfigurationPlansNoChanges converts the nodepool.yaml of a running nodepool-launcher. A plan against
// its ZooKeeper then has nothing to do.
func TestConvertedConfigurationPlansNoChanges(t *testing.T) {
	t.Parallel()
	zk := lab.Start(t, 1)
	const machines = 4
	nodepool := lab.StartLauncher(t, zk, lab.Nodepool{Driver: "static", Provider: "rack", Nodes: machines, Labels: []string{"common", "theirs"}})
	l := newLoad(t, newZuul(t, zk.Env), 1, common)
	testutil.Await(t, "Nodepool has registered its machines", func() bool {
		names, _ := l.children(l.over, "/nodepool/nodes")
		return len(names) >= machines && l.pools() == 1
	})
	dir := filepath.Join(t.TempDir(), "converted")
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), npctl, args...)
		cmd.Env = append(os.Environ(), "NO_COLOR=1")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run("convert", "-out="+dir, nodepool.Configuration()); err != nil {
		t.Fatalf("convert: %v\n%s", err, out)
	}
	out, err := run("-chdir="+dir, "plan")
	if err != nil || !strings.Contains(out, "No changes.") {
		t.Fatalf("plan: %v\n%s", err, out)
	}

	files, err := filepath.Glob(filepath.Join(dir, "*.hcl"))
	testutil.Must(t, err)
	for _, file := range files { // another machine is a change
		text, err := os.ReadFile(file)
		testutil.Must(t, err)
		testutil.WriteFile(t, file, strings.ReplaceAll(string(text), "127.1.0.1", "127.1.0.99"))
	}
	if out, err := run("-chdir="+dir, "plan"); err != nil || strings.Contains(out, "No changes.") || !strings.Contains(out, "127.1.0.99") {
		t.Errorf("plan with another machine: %v\n%s", err, out)
	}
}
