//go:build integration

package azure

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/azure"
	"github.com/npctl/npctl/drivers/azure/azuretest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/kill"
)

// fleet has a node of an uploaded image.
const fleet = `
npctl {
  images_dir = "DIRECTORY"
  state "bolt" { path = "npctl.db" }
}
diskimage "blank" {
  builder "exec" {
    command = ["sh", "-c", "head -c 1000000 /dev/urandom >\"$NPCTL_OUTPUT.raw\""]
    formats = ["raw"]
  }
}
label "blank" { min_ready = 1 }
provider "azure" "blue" {
  resource_group = "ci"
  endpoint       = "https://azure.test"
  rate           = 0
  pool "main" {
    network           = "lab"
    generate_password = true
    host_key_checking = false
    label "blank" {
      image    = diskimage.blank
      vm_sizes = ["Standard_D2s_v5"]
    }
  }
}
`

// TestKilledAtEveryCallAndCommit kills an apply and a destroy before and after each changing call and each commit.
func TestKilledAtEveryCallAndCommit(t *testing.T) {
	l := newLab(t, "")
	testutil.WriteFile(t, filepath.Join(l.Dir, "npctl.hcl"), strings.ReplaceAll(fleet, "DIRECTORY", filepath.Join(l.Dir, "images")))
	for _, variable := range l.Env {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	l.cloud.AddInterface(map[string]string{"owner": "another"})
	whole := nodes(1)
	whole["image"] = 1
	f := kill.Fleet{Dir: l.Dir, Drivers: map[string]drivers.Driver{"azure": azure.New()},
		Wrap: func(http.RoundTripper) http.RoundTripper { return l.cloud },
		Changes: func(r *http.Request) string {
			if api := azuretest.APIOf(r.Method, r.URL.Path); changes(api) {
				return api
			}
			return ""
		}}
	f.Everywhere(t, whole, l.numbers)
	if foreign := len(l.cloud.Objects()); foreign != 1 {
		t.Errorf("%d objects remain, want that of another user", foreign)
	}
}

// changes reports whether a call changes the cloud. The end of an upload is only one of its steps.
func changes(api string) bool {
	return api == "network.Delete" || strings.Contains(api, ".Begin") && !strings.HasSuffix(api, "Access")
}
