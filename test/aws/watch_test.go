//go:build integration

package aws

import (
	"slices"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/zuul/executor"
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

func TestWatchServesARequest(t *testing.T) {
	l := newLab(t, onDemand)
	stay := l.foreign()
	l.Watch(t)
	n := l.Take("small", 1)[0]
	if n.Addresses.Interface == "" || n.Addresses.Interface != n.Addresses.PublicIPv4 || n.Region != "us-east-1" || n.Zone == "" || n.Login.Username != "ec2-user" || n.Login.ConnectionPort != 2222 {
		t.Errorf("node is %+v", n)
	}
	host := executor.HostOf(t, n)
	for name, want := range map[string]any{"ansible_host": n.Addresses.Interface, "ansible_port": 2222.0, "ansible_user": "ec2-user", "ansible_ssh_common_args": "-o StrictHostKeyChecking=false"} {
		if host.Vars[name] != want { // without host_key_checking Zuul checks no keys
			t.Errorf("for Zuul's executor %s is %v, want %v", name, host.Vars[name], want)
		}
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
	l.Return(n)
	testutil.Await(t, "the node is deleted", func() bool { return len(l.owned()["instance"]) == 0 })
	l.mustHave(nil)
	stay()
}

// TestCallsOfAHundredNodes counts the API calls from a request for 100 nodes to their deletion. The search for leaks,
// which the daemon makes first and then once a minute, is not counted, as it is not for Nodepool.
func TestCallsOfAHundredNodes(t *testing.T) {
	const nodes = 100
	l := newLab(t, strings.Replace(onDemand, filters, `image_id = "`+image+`"`, 1))
	l.Watch(t)
	testutil.Await(t, "leaks are searched for", func() bool { return l.Count("DescribeHosts") > 0 })
	l.Taken()
	made := l.Take("small", nodes)
	calls, total := l.Taken()
	t.Logf("%d nodes from request to ready: %d calls: %v", nodes, total, calls)
	l.Return(made...)
	testutil.Await(t, "the nodes are deleted", func() bool { return len(l.owned()["instance"]) == 0 })
	deletions, more := l.Taken()
	t.Logf("from return to deletion: %d calls: %v; together %d", more, deletions, total+more)
	if calls["RunInstances"] != nodes || deletions["TerminateInstances"] > 5 {
		t.Errorf("%d calls create the nodes and %d delete them, want %d and at most 5", calls["RunInstances"], deletions["TerminateInstances"], nodes)
	}
}
