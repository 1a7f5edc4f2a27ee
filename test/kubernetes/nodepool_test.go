//go:build integration

package kubernetes

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
)

// nodepoolPods creates and deletes 100 pods with the driver of Nodepool, each in a thread as Nodepool does.
const nodepoolPods = `
import threading, types
from nodepool.driver.kubernetes.provider import KubernetesProvider

config = types.SimpleNamespace(name="nodepool", context="test", pools={"main": types.SimpleNamespace(name="main")})
provider = KubernetesProvider(config)
provider.start(None)
unset = ["spec", "cpu", "memory", "storage", "cpu_limit", "memory_limit", "storage_limit", "gpu", "gpu_resource", "node_selector", "privileged",
         "scheduler_name", "volumes", "volume_mounts", "labels", "annotations"]
label = types.SimpleNamespace(name="worker", image="debian:12", image_pull="IfNotPresent", env=[], dynamic_labels={}, **dict.fromkeys(unset))
errors = []

def parallel(do):
    def run(i):
        try:
            do("%010d" % i)
        except Exception as e:
            errors.append(e)
    threads = [threading.Thread(target=run, args=(i,)) for i in range(100)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()

def delete(i):
    provider.cleanupNode("main-" + i)
    provider.waitForNodeCleanup("main-" + i)

parallel(lambda i: provider.createPod(types.SimpleNamespace(id=i), "main", label, None))
parallel(delete)
if errors:
    raise errors[0]
`

// TestCallsOfHundredNodesOfNodepool counts the calls of Nodepool's driver for the same pods.
func TestCallsOfHundredNodesOfNodepool(t *testing.T) {
	at := newPlace(t, "")
	started := time.Now()
	cmd := exec.CommandContext(t.Context(), os.Getenv("NPCTL_NODEPOOL_PYTHON"), "-c", nodepoolPods)
	cmd.Env = append(slices.Clone(at.env), "PYTHONPATH="+os.Getenv("NPCTL_NODEPOOL_CLIENT"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("Nodepool: %v\n%s", err, out)
	}
	all := at.gate.Count()
	t.Logf("100 pods of Nodepool: %d calls (%d changing) in %.1f s", all[false], all[true], time.Since(started).Seconds())
	if all[true] < 100 {
		t.Error("Nodepool has created nothing")
	}
	testutil.Await(t, "the namespaces of Nodepool are gone", func() bool { return len(objects(t, "nodepool_provider_name=nodepool")) == 0 })
}
