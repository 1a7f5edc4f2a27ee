//go:build integration

package ibmvpc

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/ibmvpc"
	"github.com/npctl/npctl/test/kill"
)

// fleet has a node of an uploaded image, with a floating IP.
const fleet = `
npctl {
  images_dir = "DIRECTORY"
  state "bolt" { path = "npctl.db" }
}
diskimage "blank" {
  builder "exec" {
    command = ["sh", "-c", "{ printf 'QFI\\373\\0\\0\\0\\3'; head -c 1000000 /dev/urandom; } >\"$NPCTL_OUTPUT.qcow2\""]
    formats = ["qcow2"]
  }
}
label "blank" { min_ready = 1 }
provider "ibmvpc" "ibm" {
  region = "eu-test"
  vpc    = "ci"
  rate   = 0
  object_storage {
    endpoint = "STORAGE"
    bucket   = "images"
  }
  image "blank" { operating_system = "debian-12-amd64" }
  pool "main" {
    host_key_checking = false
    public_ipv4       = true
    label "blank" {
      image    = diskimage.blank
      profiles = ["cx2-2x4"]
    }
  }
}
`

// TestKilledAtEveryCallAndCommit kills an apply and a destroy before and after each changing call and each commit.
func TestKilledAtEveryCallAndCommit(t *testing.T) {
	l := newLab(t, "")
	l.Write(strings.NewReplacer("DIRECTORY", filepath.Join(l.Dir, "images"), "STORAGE", l.Storage()).Replace(fleet))
	for name, value := range l.Server.Env() {
		t.Setenv(name, value)
	}
	stay := l.foreign()
	f := kill.Fleet{Dir: l.Dir, Drivers: map[string]drivers.Driver{"ibmvpc": ibmvpc.New()},
		Changes: func(r *http.Request) string {
			if r.Method == http.MethodGet || strings.Contains(r.URL.Path, "/identity/") {
				return ""
			}
			return r.Method + " " + r.URL.Path
		}}
	f.Everywhere(t, map[string]int{"instances": 1, "volumes": 1, "floating_ips": 1, "images": 1, "objects": 1}, l.owned)
	stay()
}
