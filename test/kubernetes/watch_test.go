//go:build integration

package kubernetes

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/kubernetes/cluster"
	"github.com/npctl/npctl/test/program"
	"github.com/npctl/npctl/watch/httpapi/client"
)

// access are the credentials of a node.
type access struct {
	Namespace, Host, Token, User, Pod string
	CA                                string `json:"ca_crt"`
	SkipTLS                           bool   `json:"skiptls"`
}

// logShown is the number of bytes of the log that a failed test shows.
const logShown = 32 << 10

// watching starts npctl watch and returns a client of its API.
func (at *place) watching() (*client.Client, *program.Process) {
	at.t.Helper()
	cmd := exec.CommandContext(at.t.Context(), npctl, "watch", "-config="+at.dir)
	cmd.Env = append(slices.Clone(at.env), "NPCTL_LOG=debug")
	cmd.Dir = at.dir
	d := program.Start(at.t, cmd, filepath.Join(at.dir, "log"))
	at.t.Cleanup(func() {
		if at.t.Failed() {
			log := d.Log()
			at.t.Logf("log:\n%s", log[max(0, len(log)-logShown):])
		}
	})
	c, err := client.New(client.Options{Socket: filepath.Join(at.dir, "npctl.db.sock")})
	testutil.Must(at.t, err)
	testutil.Await(at.t, "the daemon is ready", func() bool { ready, err := c.Ready(at.t.Context()); return err == nil && ready })
	return c, d
}

// taken requests a node by command, takes it and returns it.
func (at *place) taken(label string) wire.Node {
	at.t.Helper()
	var taken struct{ Nodes []wire.Node }
	cmd, stdout, stderr := at.command(at.t.Context(), "request", "create", "-label="+label, "-take", "-json")
	if err := cmd.Run(); err != nil {
		at.t.Fatalf("npctl request create: %v\n%s%s", err, stdout, stderr)
	}
	testutil.Must(at.t, json.Unmarshal(stdout.Bytes(), &taken))
	if len(taken.Nodes) != 1 {
		at.t.Fatalf("npctl request create: %s", stdout)
	}
	return taken.Nodes[0]
}

// access returns the credentials of a node by command.
func (at *place) access(node string) (a access, text string) {
	at.t.Helper()
	cmd, stdout, stderr := at.command(at.t.Context(), "node", "access", node)
	if err := cmd.Run(); err != nil {
		at.t.Fatalf("npctl node access: %v\n%s%s", err, stdout, stderr)
	}
	testutil.Must(at.t, json.Unmarshal(stdout.Bytes(), &a))
	return a, stdout.String()
}

func decoded(t *testing.T, text string) string {
	t.Helper()
	content, err := base64.StdEncoding.DecodeString(text)
	testutil.Must(t, err)
	return string(content)
}

// kubectl runs kubectl with the credentials and returns its output.
func (a access) kubectl(t *testing.T, ca string, args ...string) (string, error) {
	t.Helper()
	config := cluster.Kubeconfig{Server: a.Host, CA: ca, Token: a.Token, Namespace: a.Namespace}.Write(t)
	return kubectl(config, args...)
}

func kubectl(config string, args ...string) (string, error) {
	cmd := exec.Command("kubectl", append([]string{"--kubeconfig=" + config, "--cache-dir=" + filepath.Dir(config)}, args...)...) //nolint:noctx // ends by itself
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestWatchServesRequests takes a pod and a namespace with npctl watch and uses them by kubectl with their credentials.
func TestWatchServesRequests(t *testing.T) {
	t.Parallel()
	at := newPlace(t, strings.ReplaceAll(config("served"), "min_ready = 1", "min_ready = 0"))
	api, d := at.watching()
	pod, space := at.taken("served-pod"), at.taken("served-space")

	a, _ := at.access(pod.ID)
	if pod.Login.ConnectionType != "kubectl" || pod.Addresses.Interface != a.Pod || a.User != "zuul-worker" || a.Namespace == "" || a.SkipTLS {
		t.Errorf("the pod is %+v with access to %s/%s", pod, a.Namespace, a.Pod)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	testutil.WriteFile(t, ca, decoded(t, a.CA))
	for command, may := range map[string]bool{
		"get pod " + a.Pod: true, "get pods": true, "delete pod " + a.Pod: false, "get secrets": false, "get namespaces": false,
		"auth can-i create pods --subresource=exec": true, "auth can-i create pods --subresource=portforward": true, "auth can-i get pods --subresource=log": true, "auth can-i create pods": false,
	} {
		if out, err := a.kubectl(t, ca, strings.Fields(command)...); (err == nil) != may {
			t.Errorf("kubectl %s: %v, want success %t: %s", command, err, may, out)
		}
	}
	b, _ := at.access(space.ID)
	if space.Login.ConnectionType != "namespace" || b.Pod != "" || b.Namespace != space.Addresses.Interface {
		t.Errorf("the namespace is %+v with access to %s/%s", space, b.Namespace, b.Pod)
	}
	for command, may := range map[string]bool{
		"create deployment web --image=debian:12": true, "get pods": true, "create secret generic s --from-literal=a=b": true,
		"get pods -n kube-system": false, "get pods -n " + a.Namespace: false, "delete namespace " + a.Namespace: false,
	} {
		if out, err := b.kubectl(t, ca, strings.Fields(command)...); (err == nil) != may {
			t.Errorf("kubectl %s: %v, want success %t: %s", command, err, may, out)
		}
	}
	for _, n := range []wire.Node{pod, space} {
		if _, err := api.ReturnNode(t.Context(), n.ID); err != nil {
			t.Error(err)
		}
	}
	testutil.Await(t, "the namespaces are gone", func() bool { return len(objects(t, "npctl/provider=served")) == 0 })
	if _, err := api.AccessNode(t.Context(), pod.ID, ""); err == nil {
		t.Error("a returned node still has credentials")
	}
	d.Stop()
	for _, secret := range []string{a.Token, b.Token, cluster.Token} {
		if strings.Contains(string(d.Log()), secret) {
			t.Error("the log has a token")
		}
		state, err := os.ReadFile(filepath.Join(at.dir, "npctl.db"))
		if err != nil || strings.Contains(string(state), secret) {
			t.Errorf("the state has a token, or %v", err)
		}
	}
}

// zuulAccepts lets Zuul's executor write a kubeconfig from the node as ZooKeeper has it.
const zuulAccepts = `
import json, sys, types
from zuul import model
from zuul.executor import server
node = model.Node(["n"], "label")
node.updateFromDict(json.load(open(sys.argv[1])))
data = node.connection_port
job = next(c for c in vars(server).values() if isinstance(c, type) and "prepareKubeConfig" in vars(c))
job.prepareKubeConfig(None, types.SimpleNamespace(kubeconfig=sys.argv[2]), data)
print(json.dumps([data["context_name"], data["namespace"], data.get("pod"), sorted(data)]))
`

// TestZuulUsesTheNode passes nodes to the class of Zuul's executor that prepares a job, and uses the kubeconfig that it
// writes.
func TestZuulUsesTheNode(t *testing.T) {
	t.Parallel()
	at := newPlace(t, strings.ReplaceAll(config("zuul"), "min_ready = 1", "min_ready = 0"))
	api, d := at.watching()
	for _, label := range []string{"zuul-pod", "zuul-space"} {
		node := at.taken(label)
		a, text := at.access(node.ID)
		dir := t.TempDir()
		document, config := filepath.Join(dir, "node.json"), filepath.Join(dir, "kubeconfig")
		testutil.WriteFile(t, document, fmt.Sprintf(`{"state":"in-use","id":%q,"interface_ip":%q,"connection_type":%q,"connection_port":%s}`,
			node.ID, node.Addresses.Interface, node.Login.ConnectionType, text))
		out, err := exec.CommandContext(t.Context(), os.Getenv("NPCTL_ZUUL_PYTHON"), "-c", zuulAccepts, document, config).Output()
		if err != nil {
			t.Fatalf("Zuul: %v\n%s", err, out)
		}
		var result []any
		testutil.Must(t, json.Unmarshal(out, &result))
		names := []any{"ca_crt", "context_name", "host", "name", "namespace", "skiptls", "token", "user"} // of Nodepool, and context_name of Zuul
		want := []any{result[0], a.Namespace, nil, names}
		if label == "zuul-pod" {
			want = []any{result[0], a.Namespace, a.Pod, []any{"ca_crt", "context_name", "host", "name", "namespace", "pod", "skiptls", "token", "user"}}
		}
		if diff := cmp.Diff(want, result); diff != "" {
			t.Errorf("Zuul's view of the node (-want +got):\n%s", diff)
		}
		if out, err := kubectl(config, "--context="+fmt.Sprint(result[0]), "get", "pods", "-o", "name"); err != nil || a.Pod != "" && !strings.Contains(out, "pod/"+a.Pod) {
			t.Errorf("kubectl with the kubeconfig of Zuul: %v: %s", err, out)
		}
		if _, err := api.ReturnNode(t.Context(), node.ID); err != nil {
			t.Error(err)
		}
	}
	testutil.Await(t, "the namespaces are gone", func() bool { return len(objects(t, "npctl/provider=zuul")) == 0 })
	d.Stop()
}

// TestCallsOfHundredNodes counts the calls from 100 requests to the end of their namespaces.
func TestCallsOfHundredNodes(t *testing.T) {
	at := newPlace(t, strings.ReplaceAll(config("many"), "min_ready = 1", "min_ready = 0"))
	api, d := at.watching()
	at.gate.Set(nil, nil)
	started := time.Now()
	const count = 100
	labels := make([]string, count)
	for i := range labels {
		labels[i] = "many-pod"
	}
	for i := range labels {
		_, err := api.CreateRequest(t.Context(), wire.NewRequest{Labels: labels[i : i+1]})
		testutil.Must(t, err)
	}
	nodes := func() (list []wire.Node) {
		list, err := api.Nodes(t.Context(), wire.NodeFilter{})
		testutil.Must(t, err)
		return list
	}
	testutil.Await(t, "all requests are fulfilled", func() bool {
		requests, err := api.Requests(t.Context(), wire.RequestFilter{States: []string{"fulfilled"}})
		return err == nil && len(requests) == count
	})
	ready := time.Since(started)
	launch := at.gate.Count()
	requests, err := api.Requests(t.Context(), wire.RequestFilter{})
	testutil.Must(t, err)
	for _, r := range requests {
		taken, err := api.TakeRequest(t.Context(), r.ID, "", 0)
		testutil.Must(t, err)
		_, err = api.ReturnNode(t.Context(), taken[0].ID)
		testutil.Must(t, err)
	}
	testutil.Await(t, "all nodes are gone", func() bool { return len(nodes()) == 0 })
	all := at.gate.Count()
	t.Logf("%d pods: %d calls (%d changing) until ready after %.1f s; %d calls (%d changing) until deleted after %.1f s; lists of pods: %d",
		count, launch[false], launch[true], ready.Seconds(), all[false], all[true], time.Since(started).Seconds(),
		len(at.gate.CallsWithPrefix("GET kube //api/v1/pods")))
	if changing := all[true]; changing > 8*count {
		t.Errorf("%d changing calls for %d nodes, want at most 8 for each", changing, count)
	}
	d.Stop()
}
