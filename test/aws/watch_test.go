//go:build integration

package aws

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/program"
)

const (
	filters = `filters = { name = "amzn-ami-hvm-2017.09.*" }`
	image   = "ami-12c6146b" // moto has it
)

// onDemand has a label without ready nodes.
const onDemand = `
npctl {
  leak_age = "1s"
  state "bolt" { path = "npctl.db" }
}
label "small" {}
provider "aws" "amazon" {
  rate = 100
  cloud_image "amazon" {
    ` + filters + `
    username        = "ec2-user"
    connection_port = 2222
  }
  pool "main" {
    host_key_checking = false
    label "small" {
      image              = cloud_image.amazon
      instance_types     = ["t3.small"]
      tags               = { purpose = "ci" }
      request_properties = { requestor = "{request.requestor}" }
    }
  }
}
`

// watch starts the daemon and waits until it responds.
func (l *lab) watch() *program.Process {
	l.t.Helper()
	cmd, _, _ := l.command("watch")
	cmd.Stdout, cmd.Stderr = nil, nil
	log := filepath.Join(l.dir, "watch.log")
	p := program.Start(l.t, cmd, log)
	l.t.Cleanup(func() {
		if l.t.Failed() {
			l.t.Log(testutil.ReadFile(l.t, log))
		}
	})
	testutil.AwaitFor(l.t, limit, "npctl watch responds", func() bool {
		p.Runs()
		status, _, _ := l.command("status")
		return status.Run() == nil
	})
	return p
}

// node is a node as npctl prints it.
type node struct {
	ID         string `json:"id"`
	ExternalID string `json:"external_id"`
	Zone       string `json:"zone"`
	Region     string `json:"region"`
	Addresses  struct {
		Interface  string `json:"interface"`
		PublicIPv4 string `json:"public_ipv4"`
	} `json:"addresses"`
	Login struct {
		Username       string `json:"username"`
		ConnectionType string `json:"connection_type"`
		ConnectionPort int    `json:"connection_port"`
	} `json:"login"`
}

// take requests nodes and takes them.
func (l *lab) take(nodes int) []node {
	l.t.Helper()
	args := []string{"request", "create", "-take", "-json", "-requestor=tester"}
	for range nodes {
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
	if len(request.Nodes) != nodes {
		l.t.Fatalf("%d nodes, want %d: %s", len(request.Nodes), nodes, stdout)
	}
	return request.Nodes
}

func TestWatchServesARequest(t *testing.T) {
	l := newLab(t, onDemand)
	stay := l.foreign()
	l.watch()
	n := l.take(1)[0]
	if n.Addresses.Interface == "" || n.Addresses.Interface != n.Addresses.PublicIPv4 || n.Region != "us-east-1" || n.Zone == "" || n.Login.Username != "ec2-user" || n.Login.ConnectionPort != 2222 {
		t.Errorf("node is %+v", n)
	}
	var instance []struct {
		PublicIPAddress string `json:"PublicIpAddress"`
		Tags            []struct{ Key, Value string }
	}
	l.cli(&instance, "ec2", "describe-instances", "--instance-ids", n.ExternalID, "--query", "Reservations[].Instances[]")
	if len(instance) != 1 || instance[0].PublicIPAddress != n.Addresses.PublicIPv4 {
		t.Fatalf("the aws command shows %+v, npctl %s", instance, n.Addresses.PublicIPv4)
	}
	for _, want := range []struct{ Key, Value string }{{"npctl_node_id", n.ID}, {"Name", "np" + n.ID}, {"purpose", "ci"}, {"requestor", "tester"}} {
		if !slices.Contains(instance[0].Tags, want) {
			t.Errorf("instance has tags %v, want %v", instance[0].Tags, want)
		}
	}
	l.run(0, "node", "return", n.ID)
	testutil.AwaitFor(t, limit, "the node is deleted", func() bool { return len(l.owned()["instance"]) == 0 })
	l.mustHave(nil)
	stay()
}

// TestCallsOfAHundredNodes counts the API calls from a request for 100 nodes to their deletion. The search for leaks,
// which the daemon makes first and then once a minute, is not counted, as it is not for Nodepool.
func TestCallsOfAHundredNodes(t *testing.T) {
	const nodes = 100
	l := newLab(t, strings.Replace(onDemand, filters, `image_id = "`+image+`"`, 1))
	l.watch()
	testutil.AwaitFor(t, limit, "leaks are searched for", func() bool { return l.recorder.count("DescribeHosts") > 0 })
	l.recorder.take()
	made := l.take(nodes)
	calls, total := l.recorder.take()
	t.Logf("%d nodes from request to ready: %d calls: %v", nodes, total, calls)
	args := []string{"node", "return"}
	for _, n := range made {
		args = append(args, n.ID)
	}
	l.run(0, args...)
	testutil.AwaitFor(t, limit, "the nodes are deleted", func() bool { return len(l.owned()["instance"]) == 0 })
	deletions, more := l.recorder.take()
	t.Logf("from return to deletion: %d calls: %v; together %d", more, deletions, total+more)
	if calls["RunInstances"] != nodes || deletions["TerminateInstances"] > 5 {
		t.Errorf("%d calls create the nodes and %d delete them, want %d and at most 5", calls["RunInstances"], deletions["TerminateInstances"], nodes)
	}
}
