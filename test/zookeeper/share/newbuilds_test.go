//go:build integration

package share

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

// validated is an image with a validation that fails while a file exists, and a label with one ready node.
const validated = `
label "debian" { min_ready = 1 }
diskimage "debian" {
  keep = 1
  validate {
    attempts = 1
    program  = ["sh", "-c", "test ! -e %[1]s"]
  }
  builder "exec" { command = ["sh", "-c", "echo \"$NPCTL_BUILD_ID\" >\"$NPCTL_OUTPUT.raw\""] }
}
provider "openstack" "one" {
  cloud        = "emulator"
  rate         = 0
  image_format = "raw"
  pool "main" {
    networks          = ["private"]
    host_key_checking = false
    label "debian" {
      image  = diskimage.debian
      flavor = "small"
    }
  }
}
`

// TestBuilderKeepsValidatedUploads has one process that builds and deletes builds, and another one that launches and validates: the
// builder never deletes the last validated upload, although newer ones displace it.
func TestBuilderKeepsValidatedUploads(t *testing.T) {
	t.Parallel()
	zk := lab.Start(t, 1)
	c := newCloud(t, "one", quick)
	broken := filepath.Join(t.TempDir(), "broken")
	config := fmt.Sprintf(validated, broken)
	a, b := newMachine(t, zk, "A", config, c), newMachine(t, zk, "B", config, c)
	a.options, b.options = []string{"-serve=images"}, []string{"-serve=nodes"}
	a.start()
	b.start()
	first := b.awaitReadyNode("")
	good := b.uploads()[0]
	if !strings.Contains(good, "validated") {
		t.Errorf("a node is ready from the upload %s", good)
	}

	testutil.WriteFile(t, broken, "")
	bad := []string{}
	for range 2 {
		a.mustRun("image", "build", "debian", "-auto-approve")
		testutil.Await(t, "the new build is rejected and the one before it is deleted", func() bool {
			now := b.uploads()
			return len(now) == 2 && slices.Contains(now, good) && !slices.Contains(now, strings.Join(bad, "")) && strings.Contains(strings.Join(now, " "), "rejected")
		})
		bad = slices.DeleteFunc(b.uploads(), func(u string) bool { return u == good })
	}
	time.Sleep(3 * time.Second) // several passes
	if now := b.uploads(); !slices.Contains(now, good) || len(now) != 2 {
		t.Fatalf("uploads are %v, want the validated %s and the newest", now, good)
	}
	b.mustRun("node", "delete", first)
	second := b.awaitReadyNode(first)

	testutil.Must(t, os.Remove(broken))
	a.mustRun("image", "build", "debian", "-auto-approve")
	testutil.Await(t, "the new build is validated", func() bool { return strings.Count(strings.Join(b.uploads(), " "), "validated") == 2 })
	b.mustRun("node", "delete", second)
	testutil.Await(t, "the builder deletes the older build after its last node", func() bool {
		now := b.uploads()
		return len(now) == 1 && now[0] != good && strings.Contains(now[0], "validated")
	})
}

// uploads returns the ready uploads of the image, each with its build and its verdict.
func (m *machine) uploads() (all []string) {
	out, err := m.command("image", "show", "debian", "-json").Output()
	if err != nil {
		return nil
	}
	var page struct{ Images []inspect.Image }
	if json.Unmarshal(out, &page) != nil || len(page.Images) != 1 {
		return nil
	}
	for _, u := range page.Images[0].Uploads {
		verdict := "untested"
		switch l := u.Launches; {
		case l != nil && l.Rejected != nil:
			verdict = "rejected"
		case l != nil && !l.Validated.IsZero():
			verdict = "validated"
		}
		if u.State == "ready" {
			all = append(all, u.Build+" "+verdict)
		}
	}
	return all
}
