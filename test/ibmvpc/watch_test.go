//go:build integration

package ibmvpc

import (
	"maps"
	"testing"

	"github.com/npctl/npctl/drivers/ibmvpc/ibmvpctest"
	"github.com/npctl/npctl/internal/testutil"
)

// onDemand has a label without ready nodes.
const onDemand = `
npctl {
  state "bolt" { path = "npctl.db" }
}
label "small" {}
provider "ibmvpc" "ibm" {
  region = "` + ibmvpctest.Region + `"
  vpc    = "` + ibmvpctest.VPC + `"
  rate   = 100
  cloud_image "debian" {
    filters         = { name = "ibm-debian-12-minimal-*", owner_type = "provider" }
    username        = "root"
    connection_port = 2222
  }
  pool "main" {
    keys              = ["ci"]
    host_key_checking = false
    public_ipv4       = true
    label "small" {
      image    = cloud_image.debian
      profiles = ["cx2-2x4"]
      tags     = { purpose = "ci" }
    }
  }
}
`

func (l *lab) awaitOwned(want map[string]int) {
	l.T.Helper()
	testutil.Await(l.T, "the objects are complete", func() bool { return maps.Equal(l.owned(), want) })
}

func TestWatchServesARequest(t *testing.T) {
	l := newLab(t, onDemand)
	stay := l.foreign()
	l.Watch(t)
	n := l.Take("small", 1)[0]
	if n.Addresses.Interface == "" || n.Addresses.Interface != n.Addresses.PublicIPv4 || n.Region != ibmvpctest.Region || n.Zone == "" || n.Login.Username != "root" || n.Login.ConnectionPort != 2222 {
		t.Errorf("node is %+v", n)
	}
	l.awaitOwned(map[string]int{"instances": 1, "volumes": 1, "floating_ips": 1})
	l.Return(n)
	l.awaitOwned(map[string]int{})
	stay()
}
