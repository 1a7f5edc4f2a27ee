// Package executor passes nodes to the class of Zuul's executor that prepares jobs.
package executor

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// hosts prints the entry of the inventory that the executor makes for the node whose document is on standard input.
const hosts = `
import json, sys, types
from zuul import model
from zuul.executor import server
node = model.Node(["node"], "label")
node.updateFromDict(json.load(sys.stdin))
job = next(c for c in vars(server).values() if isinstance(c, type) and "getHostList" in vars(c))
self = types.SimpleNamespace(job=types.SimpleNamespace(host_variables={}, group_variables={}), normal_vars={}, nodeset=model.NodeSet(),
                             executor_server=types.SimpleNamespace(default_username="default"), winrm_pem_file="", winrm_key_file="")
print(json.dumps(job.getHostList(self, {}, [node])[0]))
`

// Host is the entry of an inventory.
type Host struct {
	Vars map[string]any `json:"host_vars"`
	Keys []string       `json:"host_keys"` // lines of known_hosts
}

// HostOf returns the entry of a node. The members of the document are those of state/zookeeper. $NPCTL_ZUUL_PYTHON is the
// Python with Zuul.
func HostOf(t *testing.T, n resources.Node) (h Host) {
	t.Helper()
	document, err := json.Marshal(map[string]any{
		"state": n.State, "provider": n.Provider, "external_id": n.ExternalID, "cloud": n.Cloud, "region": n.Region, "az": n.Zone,
		"interface_ip": n.Addresses.Interface, "public_ipv4": n.Addresses.PublicIPv4, "private_ipv4": n.Addresses.PrivateIPv4,
		"username": n.Login.Username, "connection_type": n.Login.ConnectionType, "connection_port": n.Login.ConnectionPort,
		"python_path": n.Login.PythonPath, "host_keys": append([]string{}, n.HostKeys...),
	})
	testutil.Must(t, err)
	cmd := exec.CommandContext(t.Context(), os.Getenv("NPCTL_ZUUL_PYTHON"), "-c", hosts)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(document), &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("Zuul: %v\n%s", err, &stderr)
	}
	testutil.Must(t, json.Unmarshal(out, &h))
	return h
}
