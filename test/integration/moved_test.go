//go:build integration

package integration

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

const movable = settings + `
diskimage "blank" {
  builder "exec" {
    command = ["sh", "-c", "head -c 1000000 /dev/zero >$NPCTL_OUTPUT.raw"]
    formats = ["raw"]
  }
}
label "small" { min_ready = 1 }
provider "openstack" "acme" {
  cloud        = "mine"
  image_format = "raw"
  pool "main" {
    networks          = ["private"]
    host_key_checking = false
    label "small" {
      image  = diskimage.blank
      flavor = "small"
    }
  }
}
`

const moves = `
moved {
  from = provider.acme
  to   = provider.vexxhost
}
moved {
  from = provider.vexxhost.pool.main
  to   = provider.vexxhost.pool.fleet
}
moved {
  from = label.small
  to   = label.little
}
moved {
  from = diskimage.blank
  to   = diskimage.empty
}
`

// TestOpenStackMovesReplaceNothing renames the provider, its pool, a label and an image while one node is in use and one is
// ready. Their servers and the image stay, and npctl deletes them under the new names.
func TestOpenStackMovesReplaceNothing(t *testing.T) {
	t.Parallel()
	p, _, at := watched(t, movable)
	before := p.things()
	d := at.watch()
	at.eventuallyCensus("ready:1")
	used := at.takeNodes("small")
	at.eventuallyCensus("in-use:1 ready:1")
	d.Stop()
	at.nothingToDo()
	made := p.things()

	// In review: the effect of another flavor, whose name the cloud resolves, and of the moves.
	earlier := filepath.Join(t.TempDir(), "npctl.hcl")
	testutil.WriteFile(t, earlier, at.read())
	at.mustRun(0, "plan", "-against="+earlier, "-detailed-exitcode").contains("No effect.")
	at.change(`flavor = "small"`, `flavor = "medium"`)
	at.mustRun(2, "plan", "-against="+earlier, "-detailed-exitcode").contains(`flavor: "small" -> "medium", replaces objects`, "Effect: 1 to replace; 1 setting changed.")
	at.change(`flavor = "medium"`, `flavor = "smal"`)
	at.mustRun(1, "plan", "-against="+earlier).contains("no such flavor", "1 new problem.")
	at.change(`flavor = "smal"`, `flavor = "small"`)

	at.write(strings.NewReplacer(`"acme"`, `"vexxhost"`, `"main"`, `"fleet"`, `"small" {`, `"little" {`, "blank", "empty").Replace(at.read()) + moves)
	at.mustRun(0, "plan").contains("a moved block renames it", "Plan: 0 to build, 0 to upload, 0 to launch", " to move, 0 to delete.")
	at.mustRun(0, "plan", "-against="+earlier).contains("Effect: 6 to move; ")
	at.mustRun(0, "apply", "-auto-approve").contains(" moved, 0 deleted.")
	at.nothingToDo()
	at.change(moves, "")
	at.nothingToDo()
	if now := p.things(); !slices.Equal(slices.Sorted(maps.Keys(now)), slices.Sorted(maps.Keys(made))) {
		t.Errorf("objects were %v, are %v", lines(made), lines(now))
	}

	d = at.watch()
	at.returnNodes(used...)
	next := at.takeNodes("little")
	at.eventuallyCensus("in-use:1 ready:1")
	at.returnNodes(next...)
	at.eventuallyCensus("ready:1")
	d.Stop()
	at.mustRun(0, "destroy", "-auto-approve", "-allow-destroy=all")
	at.gone(p, before)
}
