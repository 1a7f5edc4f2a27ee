//go:build integration

package clouds

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

// nodepoolConfig is the configuration of Nodepool for the nodes of TestCallsOfAHundredNodes/aws.
const nodepoolConfig = `
zookeeper-servers: [{host: unused}]
labels: [{name: small}]
providers:
  - name: amazon
    driver: aws
    region-name: us-east-1
    rate: 100
    cloud-images: [{name: amazon, image-id: ` + ami + `, username: ec2-user}]
    pools:
      - name: main
        host-key-checking: false
        labels:
          - {name: small, cloud-image: amazon, instance-type: t3.small, key-name: ci, tags: {purpose: ci}}
`

// nodepoolNodes creates 100 nodes and, after a line of input, deletes them, with the provider and the driver of Nodepool, the
// threads and intervals of its launcher, and a ZooKeeper that stores nothing.
const nodepoolNodes = `
import sys, time, types
from unittest.mock import MagicMock
from nodepool.config import loadConfig
from nodepool.driver import Drivers
from nodepool.driver.statemachine import StateMachineNodeLauncher
from nodepool.zk import zookeeper as zk

Drivers.load()
config = loadConfig(sys.argv[1]).providers["amazon"]
provider = Drivers.get("aws").getProvider(config)
store = MagicMock()
store.nodeIterator.side_effect = lambda **_: iter([])
provider.start(store)
pool = config.pools["main"]
handler = types.SimpleNamespace(zk=store, manager=provider, pool=pool, chosen_az=None, pw=types.SimpleNamespace(nodepool=types.SimpleNamespace(statsd=None)),
                                request=types.SimpleNamespace(id="1", event_id="1", getSafeAttributes=dict))

def finish(machines):
    while machines:
        time.sleep(0.1)

provider.labelReady(pool.labels["small"])
nodes = []
for i in range(100):
    provider.quotaNeededByLabel("small", pool)
    provider.estimatedNodepoolQuota()
    node = zk.Node("%010d" % i)
    node.type, node.provider, node.state = ["small"], "amazon", zk.BUILDING
    nodes.append(node)
    launcher = StateMachineNodeLauncher(handler, node, config)
    launcher.launch()
    provider.launchers.append(launcher)
finish(provider.launchers)
print(sum(n.state == zk.READY for n in nodes), "ready", flush=True)
sys.stdin.readline()
for node in nodes:
    provider.startNodeCleanup(node)
finish(provider.deleters)
print(store.deleteNode.call_count, "deleted", flush=True)
provider.stop()
provider.join()
`

// TestCallsOfAHundredNodesOfNodepool counts the calls of Nodepool's driver for the same nodes.
func TestCallsOfAHundredNodesOfNodepool(t *testing.T) {
	l := newMoto(t, "")
	file := filepath.Join(l.Dir, "nodepool.yaml")
	testutil.WriteFile(t, file, nodepoolConfig)
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Getenv("NPCTL_NODEPOOL_PYTHON"), "-c", nodepoolNodes, file)
	var stderr bytes.Buffer
	cmd.Env, cmd.Stderr = l.Env, &stderr
	stdin, err := cmd.StdinPipe()
	testutil.Must(t, err)
	stdout, err := cmd.StdoutPipe()
	testutil.Must(t, err)
	testutil.Must(t, cmd.Start())
	lines := bufio.NewReader(stdout)
	expect := func(want string) {
		t.Helper()
		if line, err := lines.ReadString('\n'); strings.TrimSpace(line) != want {
			cancel()
			t.Fatalf("Nodepool prints %q (%v), want %q; %v\n%s", line, err, want, cmd.Wait(), &stderr)
		}
	}
	expect("100 ready")
	calls, total := l.Taken()
	t.Logf("100 nodes of Nodepool from request to ready: %d calls: %v", total, calls)
	_, err = stdin.Write([]byte("\n"))
	testutil.Must(t, err)
	expect("100 deleted")
	deletions, more := l.Taken()
	t.Logf("from return to deletion: %d calls: %v; together %d", more, deletions, total+more)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("Nodepool: %v\n%s", err, &stderr)
	}
	if calls["RunInstances"] != 100 {
		t.Errorf("Nodepool has called RunInstances %d times, want 100", calls["RunInstances"])
	}
	var left []string
	l.cli(&left, "ec2", "describe-instances", "--filters", "Name=tag:nodepool_provider_name,Values=amazon",
		"Name=instance-state-name,Values=pending,running,shutting-down", "--query", "Reservations[].Instances[].InstanceId")
	if len(left) != 0 {
		t.Errorf("Nodepool has left %d instances", len(left))
	}
}
