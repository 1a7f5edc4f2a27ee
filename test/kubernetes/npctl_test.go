//go:build integration

package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/gate"
	"github.com/npctl/npctl/test/kubernetes/cluster"
)

// runLimit is the time limit of one npctl command.
const runLimit = testutil.Patience

// place is a directory with a configuration in which npctl runs. Its calls pass a gate.
type place struct {
	t    *testing.T
	dir  string
	gate *gate.Gate
	args []string // of commands that take variables
	env  []string
}

func newPlace(t *testing.T, config string) *place {
	t.Helper()
	dir := testutil.ShortDir(t)
	g := &gate.Gate{}
	transport, err := kube.Transport()
	testutil.Must(t, err)
	url, ca := cluster.Front(t, g.Serve(t, "kube", kube.URL, cluster.Projects{Next: transport}))
	kubeconfig := cluster.Kubeconfig{Server: url, CA: ca, Token: cluster.Token, Namespace: "workers"}.Write(t)
	at := &place{t: t, dir: dir, gate: g, env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "KUBECONFIG=" + kubeconfig}}
	testutil.WriteFile(t, filepath.Join(dir, "npctl.hcl"), config)
	return at
}

// command prepares an npctl command.
func (at *place) command(ctx context.Context, args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	at.t.Helper()
	if slices.Contains([]string{"plan", "apply", "destroy"}, args[0]) {
		args = append(slices.Clone(args), at.args...)
	}
	cmd = exec.CommandContext(ctx, npctl, args...)
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = at.dir, at.env, stdout, stderr
	return cmd, stdout, stderr
}

// run runs npctl and returns its standard output. The test fails unless npctl ends with the exit code.
func (at *place) run(code int, args ...string) string {
	at.t.Helper()
	ctx, cancel := context.WithTimeout(at.t.Context(), runLimit)
	defer cancel()
	cmd, stdout, stderr := at.command(ctx, args...)
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || cmd.ProcessState.ExitCode() != code {
		at.t.Fatalf("npctl %s: %v, want exit code %d\n%s%s", strings.Join(args, " "), err, code, stdout, stderr)
	}
	for _, secret := range []string{cluster.Token, "eyJ"} { // a token of a service account starts with the latter
		if args[0] != "node" && strings.Contains(stdout.String()+stderr.String(), secret) {
			at.t.Errorf("npctl %s prints a secret\n%s%s", strings.Join(args, " "), stdout, stderr)
		}
	}
	return stdout.String() + stderr.String()
}

// as runs further commands with the token of another user.
func (at *place) as(token string) {
	at.t.Helper()
	at.env = append(at.env, "KUBECONFIG="+cluster.Kubeconfig{Server: kube.URL, CA: kube.CA, Token: token}.Write(at.t))
}

// contains fails the test unless every text is in the output.
func (at *place) contains(output string, texts ...string) {
	at.t.Helper()
	for _, text := range texts {
		if !strings.Contains(output, text) {
			at.t.Errorf("%q is not in\n%s", text, output)
		}
	}
}

// objects lists npctl's namespaces and pods as people see them: with kubectl's label selector.
func objects(t *testing.T, selector string) (names []string) {
	t.Helper()
	for _, kind := range []string{"namespaces", "pods"} {
		list, err := kube.List("/api/v1/" + kind + "?labelSelector=" + selector)
		testutil.Must(t, err)
		for _, o := range list {
			if o.Metadata.Deletion == "" {
				names = append(names, strings.TrimSuffix(kind, "s")+" "+o.Metadata.Labels["npctl/label"])
			}
		}
	}
	slices.Sort(names)
	return names
}

func mustHave(t *testing.T, provider string, want ...string) {
	t.Helper()
	if got := objects(t, "npctl/provider="+provider); !slices.Equal(got, want) {
		t.Errorf("the cluster has %q, want %q", got, want)
	}
}

func namespaceOf(t *testing.T, provider, label string) string {
	t.Helper()
	list, err := kube.List("/api/v1/namespaces?labelSelector=npctl/provider=" + provider + ",npctl/label=" + label)
	testutil.Must(t, err)
	if len(list) != 1 {
		t.Fatalf("%d namespaces have label %s, want 1", len(list), label)
	}
	return list[0].Metadata.Name
}

// TestExample applies examples/kubernetes.hcl beside namespaces of others, and repairs changes behind npctl's back.
func TestExample(t *testing.T) {
	t.Parallel()
	theirs := "np0000000001"
	project(t, theirs)
	at := newPlace(t, testutil.ReadFile(t, "../../examples/kubernetes.hcl"))
	at.args = []string{"-var", "context=test"}
	at.contains(at.run(2, "plan", "-detailed-exitcode"), "Plan: 0 to build, 0 to upload, 2 to launch, 0 to delete.")
	mustHave(t, "cluster")
	at.contains(at.run(0, "apply", "-auto-approve"), "2 launched")
	mustHave(t, "cluster", "namespace namespace", "namespace python-pod", "pod python-pod")
	at.contains(at.run(0, "plan", "-detailed-exitcode"), "No changes.")

	name := namespaceOf(t, "cluster", "namespace")
	testutil.Must(t, kube.Request(http.MethodDelete, "/api/v1/namespaces/"+name, nil, nil))
	testutil.Await(t, "the namespace is gone", func() bool { return kube.Request(http.MethodGet, "/api/v1/namespaces/"+name, nil, nil) != nil })
	at.run(2, "plan", "-detailed-exitcode")
	at.contains(at.run(0, "apply", "-auto-approve"), "1 launched")
	mustHave(t, "cluster", "namespace namespace", "namespace python-pod", "pod python-pod")

	before := namespaceOf(t, "cluster", "python-pod")
	at.args = append(at.args, "-var", "image=debian:13")
	at.contains(at.run(2, "plan", "-detailed-exitcode"), "image")
	at.run(0, "apply", "-auto-approve")
	mustHave(t, "cluster", "namespace namespace", "namespace python-pod", "pod python-pod")
	if namespaceOf(t, "cluster", "python-pod") == before {
		t.Error("a change of the image does not replace the node")
	}
	at.run(0, "destroy", "-auto-approve")
	mustHave(t, "cluster")
	at.contains(at.run(0, "destroy", "-auto-approve"), "No changes.")
	testutil.Must(t, kube.Request(http.MethodGet, "/api/v1/namespaces/"+theirs, nil, nil))
}

// TestOpenShiftExample applies, changes and destroys nodes of the drivers for OpenShift.
func TestOpenShiftExample(t *testing.T) {
	t.Parallel()
	project(t, "workers")
	at := newPlace(t, `
label "project" { min_ready = 1 }
label "pod" { min_ready = 1 }
label "worker" { min_ready = 2 }
provider "openshift" "shift" {
  context = "test"
  pool "main" {
    cpu    = 1
    memory = 256
    label "project" { type = "project" }
    label "pod" {
      type  = "pod"
      image = "debian:12"
    }
  }
}
provider "openshiftpods" "shiftpods" {
  context = "test"
  pool "main" {
    label "worker" { image = "debian:12" }
  }
}
`)
	at.contains(at.run(0, "apply", "-auto-approve"), "4 launched")
	mustHave(t, "shiftpods", "pod worker", "pod worker")
	mustHave(t, "shift", "pod pod")
	if got := projectsOf(t, "shift"); len(got) != 2 {
		t.Errorf("projects are %q, want 2", got)
	}
	at.contains(at.run(0, "plan", "-detailed-exitcode"), "No changes.")
	at.run(0, "destroy", "-auto-approve")
	mustHave(t, "shift")
	mustHave(t, "shiftpods")
	if left := projectsOf(t, "shift"); len(left) > 0 {
		t.Errorf("projects remain: %q", left)
	}
}

// projectsOf returns the projects of which the description names a provider.
func projectsOf(t *testing.T, provider string) (names []string) {
	t.Helper()
	list, err := kube.List("/api/v1/namespaces")
	testutil.Must(t, err)
	for _, o := range list {
		if o.Metadata.Deletion == "" && strings.Contains(o.Metadata.Annotations["openshift.io/description"], fmt.Sprintf(`"provider":%q`, provider)) {
			names = append(names, o.Metadata.Name)
		}
	}
	return names
}

// config returns a provider with a pod and a namespace.
func config(provider string) string {
	return fmt.Sprintf(`
npctl {
  state "bolt" { path = "npctl.db" }
}
label "%[1]s-pod" { min_ready = 1 }
label "%[1]s-space" { min_ready = 1 }
provider "kubernetes" %[1]q {
  rate = 0
  pool "main" {
    label "%[1]s-pod" {
      type  = "pod"
      image = "debian:12"
    }
    label "%[1]s-space" { type = "namespace" }
  }
}
`, provider)
}

// TestTroubleIsReported launches a pod of which the image cannot be pulled, and runs npctl with a wrong context, with wrong
// credentials and without permissions.
func TestTroubleIsReported(t *testing.T) {
	t.Parallel()
	at := newPlace(t, strings.Replace(strings.Replace(config("trouble"), "rate = 0", "launch_attempts = 1", 1), "debian:12", "broken:1", 1))
	at.contains(at.run(1, "apply", "-auto-approve"), "container node: ImagePullBackOff: Back-off pulling image broken:1", "1 launched")
	at.run(0, "destroy", "-auto-approve")
	mustHave(t, "trouble")

	wrong := strings.Replace(config("trouble"), "rate = 0", `context = "tset"`, 1)
	testutil.WriteFile(t, filepath.Join(at.dir, "npctl.hcl"), wrong)
	at.contains(at.run(1, "plan"), `the kubeconfig has no context "tset"; did you mean test?`)

	testutil.WriteFile(t, filepath.Join(at.dir, "npctl.hcl"), strings.Replace(wrong, "tset", "wrong", 1))
	at.contains(at.run(1, "plan"), "context wrong: list namespaces: Unauthorized (401)")

	testutil.WriteFile(t, filepath.Join(at.dir, "npctl.hcl"), config("trouble"))
	at.as(cluster.LimitedToken)
	at.contains(at.run(1, "plan"), `User "limited" cannot list resource "namespaces"`)
}
