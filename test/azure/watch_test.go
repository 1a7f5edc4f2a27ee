//go:build integration

package azure

import (
	"strings"
	"testing"

	"github.com/npctl/npctl/drivers/azure/azuretest"
)

// onDemand has a label without ready nodes.
const onDemand = `
npctl {
  leak_age = "1s"
  state "bolt" { path = "npctl.db" }
}
variable "endpoint" { type = string }
label "small" {}
provider "azure" "blue" {
  resource_group = "ci"
  endpoint       = var.endpoint
  rate           = 100
  cloud_image "debian" {
    image_id        = "` + azuretest.Marketplace + `"
    username        = "zuul"
    connection_port = 2222
  }
  pool "main" {
    network           = "lab"
    ssh_public_key    = "ssh-ed25519 key"
    host_key_checking = false
    label "small" {
      image              = cloud_image.debian
      vm_sizes           = ["Standard_B1s"]
      tags               = { purpose = "ci" }
      request_properties = { requestor = "{request.requestor}" }
    }
  }
}
`

func TestWatchServesARequest(t *testing.T) {
	l := newLab(t, onDemand)
	l.Watch(t)
	n := l.Take("small", 1)[0]
	if n.Addresses.Interface == "" || n.Addresses.Interface != n.Addresses.PublicIPv4 || n.Region != azuretest.Location || n.Login.Username != "zuul" || n.Login.ConnectionPort != 2222 {
		t.Errorf("node is %+v", n)
	}
	for name, tags := range l.cloud.Objects() {
		if tags["npctl_node_id"] != n.ID || tags["npctl_name"] != "np"+n.ID || tags["purpose"] != "ci" || tags["requestor"] != "tester" {
			t.Errorf("%s has tags %v", name, tags)
		}
	}
	l.mustHave(nodes(1))
	l.Return(n)
	l.mustHave(nodes(0))
}

// TestCallsOfAHundredNodes counts the API calls from a request for 100 nodes to their deletion.
func TestCallsOfAHundredNodes(t *testing.T) {
	const number = 100
	l := newLab(t, onDemand)
	l.cloud.MaxCores(number)
	l.Watch(t)
	l.Taken()
	made := l.Take("small", number)
	calls, total := l.Taken()
	t.Logf("%d nodes from request to ready: %d calls: %v", number, total, calls)
	l.Return(made...)
	l.mustHave(nodes(0))
	deletions, more := l.Taken()
	t.Logf("from return to deletion: %d calls: %v; together %d", more, deletions, total+more)
	changing := 0
	for api, n := range calls {
		if strings.Contains(api, ".Begin") {
			changing += n
		}
	}
	if changing != 2*number || total+more > 5*number {
		t.Errorf("%d nodes cost %d calls, %d of them to create", number, total+more, changing)
	}
}
