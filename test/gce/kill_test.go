//go:build integration

package gce

import (
	"net/http"
	"strings"
	"testing"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/gce"
	"github.com/npctl/npctl/test/kill"
)

// fleet has two ready nodes.
const fleet = `
npctl {
  state "bolt" { path = "npctl.db" }
}
label "small" { min_ready = MIN_READY }
provider "gce" "google" {
  project  = "ci-project"
  region   = "europe-west1"
  endpoint = "ENDPOINT"
  rate     = 100
  cloud_image "debian" {
    image_id        = "projects/debian-cloud/global/images/family/debian-12"
    username        = "zuul"
    connection_port = 2222
  }
  pool "main" {
    host_key_checking = false
    label "small" {
      image              = cloud_image.debian
      machine_types      = ["e2-small"]
      labels             = { purpose = "ci" }
      request_properties = { requestor = "{request.requestor}" }
    }
  }
}
`

func fleetOf(minReady string) string { return strings.ReplaceAll(fleet, "MIN_READY", minReady) }

// TestKilledAtEveryCallAndCommit kills an apply and a destroy before and after each changing call and each commit.
func TestKilledAtEveryCallAndCommit(t *testing.T) {
	l := newLab(t, strings.Replace(fleetOf("2"), "= 100", "= 0", 1))
	stay := l.foreign()
	f := kill.Fleet{Dir: l.Dir, Drivers: map[string]drivers.Driver{"gce": gce.New()},
		Changes: func(r *http.Request) string { // a wait is where a launch spends its time
			if action := actionOf(r); !strings.HasPrefix(action, "GET ") && r.URL.Path != "/token" {
				return action
			}
			return ""
		}}
	f.Everywhere(t, map[string]int{"instances": 2, "disks": 2}, l.numbers)
	stay()
}
