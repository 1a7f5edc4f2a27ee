//go:build integration

package gce

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/npctl/npctl/drivers/gce/gcetest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/program"
)

// watch starts the daemon and waits until it responds.
func (l *lab) watch() {
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
		ConnectionPort int    `json:"connection_port"`
	} `json:"login"`
}

// takeNodes requests nodes and takes them.
func (l *lab) takeNodes(nodes int) []node {
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
	l := newLab(t, fleetOf("0"))
	stay := l.foreign()
	l.watch()
	n := l.takeNodes(1)[0]
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
	l.run(0, "node", "return", n.ID)
	l.mustHave(0)
	stay()
}

// TestCallsOfAHundredNodes counts the API calls from a request for 100 nodes to their deletion.
func TestCallsOfAHundredNodes(t *testing.T) {
	const nodes = 100
	l := newLab(t, fleetOf("0"))
	l.watch()
	l.take()
	made := l.takeNodes(nodes)
	calls, total := l.take()
	t.Logf("%d nodes from request to ready: %d calls: %v", nodes, total, calls)
	args := []string{"node", "return"}
	for _, n := range made {
		args = append(args, n.ID)
	}
	l.run(0, args...)
	testutil.AwaitFor(t, limit, "the nodes are deleted", func() bool { return len(l.instances()) == 0 })
	deletions, more := l.take()
	t.Logf("from return to deletion: %d calls: %v; together %d", more, deletions, total+more)
	if total+more > 5*nodes {
		t.Errorf("%d nodes cost %d calls", nodes, total+more)
	}
}
