//go:build integration

package gce

import (
	"testing"

	"github.com/npctl/npctl/drivers/gce/gcetest"
	"github.com/npctl/npctl/internal/testutil"
)

// onDemand has a label without ready nodes.
const onDemand = `
npctl {
  state "bolt" { path = "npctl.db" }
}
label "small" {}
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

func TestWatchServesARequest(t *testing.T) {
	l := newLab(t, onDemand)
	stay := l.foreign()
	l.Watch(t)
	n := l.Take("small", 1)[0]
	if n.Addresses.Interface == "" || n.Addresses.Interface != n.Addresses.PublicIPv4 || n.Region != gcetest.Region || n.Zone == "" || n.Login.Username != "zuul" || n.Login.ConnectionPort != 2222 {
		t.Errorf("node is %+v", n)
	}
	i, err := l.other.Instances.Get(gcetest.Project, n.Zone, base(n.ExternalID)).Do()
	testutil.Must(t, err)
	if i.NetworkInterfaces[0].AccessConfigs[0].NatIP != n.Addresses.PublicIPv4 {
		t.Errorf("the API shows %+v, npctl %s", i.NetworkInterfaces[0], n.Addresses.PublicIPv4)
	}
	for key, want := range map[string]string{"npctl_node_id": n.ID, "purpose": "ci", "requestor": "tester"} {
		if i.Labels[key] != want {
			t.Errorf("instance has labels %v, want %s = %s", i.Labels, key, want)
		}
	}
	l.Return(n)
	l.mustHave(0)
	stay()
}

// TestCallsOfAHundredNodes counts the API calls from a request for 100 nodes to their deletion.
func TestCallsOfAHundredNodes(t *testing.T) {
	const nodes = 100
	l := newLab(t, onDemand)
	l.Watch(t)
	l.Taken()
	made := l.Take("small", nodes)
	calls, total := l.Taken()
	t.Logf("%d nodes from request to ready: %d calls: %v", nodes, total, calls)
	l.Return(made...)
	testutil.Await(t, "the nodes are deleted", func() bool { return len(l.instances()) == 0 })
	deletions, more := l.Taken()
	t.Logf("from return to deletion: %d calls: %v; together %d", more, deletions, total+more)
	if total+more > 5*nodes {
		t.Errorf("%d nodes cost %d calls", nodes, total+more)
	}
}
