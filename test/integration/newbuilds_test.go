//go:build integration

package integration

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

// validated has a validation whose program fails while the file "broken" exists.
var validated = strings.Replace(movable, `diskimage "blank" {`, `diskimage "blank" {
  keep = 1
  validate {
    attempts = 1
    program  = ["sh", "-c", "cat >tested; test ! -e broken || { echo no mirror; exit 1; }"]
  }
  rollout {
    stage { share = 50 }
  }`, 1)

// TestOpenStackNewBuildIsValidatedAndRolledOut rejects a bad build, and rolls out a good one over two nodes.
func TestOpenStackNewBuildIsValidatedAndRolledOut(t *testing.T) {
	t.Parallel()
	p := newProject(t).createUsualObjects()
	before := p.things()
	at := p.newPlace(strings.Replace(validated, "min_ready = 1", "min_ready = 2", 1))
	at.mustRun(0, "apply", "-auto-approve").endsWith("Apply complete: 1 built, 1 uploaded, 1 validated, 2 launched, 0 deleted.")
	if test := testutil.ReadFile(t, filepath.Join(at.dir, "tested")); !strings.Contains(test, `"validates":"0000000001"`) {
		t.Errorf("the program has read %s", test)
	}
	at.nothingToDo()
	p.mustHave(before, map[string]int{"server": 2, "image": 1})

	testutil.WriteFile(t, filepath.Join(at.dir, "broken"), "")
	at.mustRun(1, "apply", "-auto-approve", "-replace=diskimage.blank").contains("is rejected in acme: program of validate", "no mirror")
	at.mustRun(0, "apply", "-auto-approve")
	at.mustRun(0, "plan").contains("No changes.", "was rejected by its validation")
	p.mustHave(before, map[string]int{"server": 2, "image": 2})

	testutil.WriteFile(t, filepath.Join(at.dir, "program"), "")
	at.change("test ! -e broken ||", "test -e program ||")
	at.mustRun(0, "apply", "-auto-approve", "-replace=diskimage.blank").contains("1 validated")
	at.mustRun(0, "plan").contains("No changes.", "is in stage 1 of 1: 50 % of the nodes")
	at.mustRun(0, "apply", "-auto-approve", "-replace=node.0000000002")
	at.mustRun(0, "plan").omits("stage 1")
	at.mustRun(0, "apply", "-auto-approve", "-replace=node.0000000003")
	at.mustRun(0, "apply", "-auto-approve") // deletes the first build
	at.nothingToDo()
	p.mustHave(before, map[string]int{"server": 2, "image": 1})
	at.mustRun(0, "destroy", "-auto-approve", "-allow-destroy=all")
	p.mustBe(before)
}
