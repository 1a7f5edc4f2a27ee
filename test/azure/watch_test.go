//go:build integration

package azure

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/npctl/npctl/drivers/azure/azuretest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/program"
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

// watch starts the daemon and waits until it responds.
func (l *lab) watch() {
	l.t.Helper()
	cmd, _, _ := l.command("watch")
	cmd.Stdout, cmd.Stderr = nil, nil
	log := filepath.Join(l.dir, "watch.log")
	p := program.Start(l.t, cmd, log)
	l.t.Cleanup(func() {
		text := testutil.ReadFile(l.t, log)
		l.quiet("the log", text)
		if l.t.Failed() {
			l.t.Log(text)
		}
	})
	testutil.AwaitFor(l.t, limit, "npctl watch responds", func() bool {
		p.Runs()
		status, _, _ := l.command("status")
		return status.Run() == nil
	})
}

// node is a node as npctl prints it.
type node struct {
	ID         string `json:"id"`
	ExternalID string `json:"external_id"`
	Region     string `json:"region"`
	Addresses  struct {
		Interface  string `json:"interface"`
		PublicIPv4 string `json:"public_ipv4"`
	} `json:"addresses"`
	Login struct {
		Username       string `json:"username"`
		ConnectionPort int    `json:"connection_port"`
	} `json:"login"`
}

// take requests nodes and takes them.
func (l *lab) take(number int) []node {
	l.t.Helper()
	args := []string{"request", "create", "-take", "-json", "-requestor=tester"}
	for range number {
		args = append(args, "-label=small")
	}
	cmd, stdout, stderr := l.command(args...)
	if err := cmd.Run(); err != nil {
		l.t.Fatalf("npctl request create: %v\n%s", err, stderr)
	}
	var request struct {
		Nodes []node `json:"nodes"`
	}
	testutil.Must(l.t, json.Unmarshal(stdout.Bytes(), &request))
	if len(request.Nodes) != number {
		l.t.Fatalf("%d nodes, want %d: %s", len(request.Nodes), number, stdout)
	}
	return request.Nodes
}

func TestWatchServesARequest(t *testing.T) {
	l := newLab(t, onDemand)
	l.watch()
	n := l.take(1)[0]
	if n.Addresses.Interface == "" || n.Addresses.Interface != n.Addresses.PublicIPv4 || n.Region != azuretest.Location || n.Login.Username != "zuul" || n.Login.ConnectionPort != 2222 {
		t.Errorf("node is %+v", n)
	}
	for name, tags := range l.cloud.Objects() {
		if tags["npctl_node_id"] != n.ID || tags["npctl_name"] != "np"+n.ID || tags["purpose"] != "ci" || tags["requestor"] != "tester" {
			t.Errorf("%s has tags %v", name, tags)
		}
	}
	l.mustHave(nodes(1))
	l.run(0, "node", "return", n.ID)
	l.mustHave(nodes(0))
}

// TestCallsOfAHundredNodes counts the API calls from a request for 100 nodes to their deletion.
func TestCallsOfAHundredNodes(t *testing.T) {
	const number = 100
	l := newLab(t, onDemand)
	l.cloud.MaxCores(number)
	l.watch()
	l.recorder.take()
	made := l.take(number)
	calls, total := l.recorder.take()
	t.Logf("%d nodes from request to ready: %d calls: %v", number, total, calls)
	args := []string{"node", "return"}
	for _, n := range made {
		args = append(args, n.ID)
	}
	l.run(0, args...)
	l.mustHave(nodes(0))
	deletions, more := l.recorder.take()
	t.Logf("from return to deletion: %d calls: %v; together %d", more, deletions, total+more)
	changing := 0
	for api, n := range calls {
		if changes(api) {
			changing += n
		}
	}
	if changing != 2*number || total+more > 5*number {
		t.Errorf("%d nodes cost %d calls, %d of them to create", number, total+more, changing)
	}
}
