//go:build integration

package kubernetes

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/kubernetes/cluster"
)

// everything has a pod with every attribute, and a pod with a specification of its own.
const everything = `
npctl {
  state "bolt" { path = "npctl.db" }
}
label "attributes" { min_ready = 1 }
label "spec" { min_ready = 1 }
provider "kubernetes" "everything" {
  rate = 0
  pool "main" {
    gpu_resource = "nvidia.com/gpu"
    label "attributes" {
      type               = "pod"
      image              = "debian:12"
      image_pull         = "Always"
      image_pull_secrets = ["registry"]
      cpu                = 0.5
      cpu_limit          = 1
      memory             = 256
      storage            = 1000
      gpu                = 2
      env                = { A = "1" }
      node_selector      = { disk = "ssd" }
      scheduler_name     = "gang"
      privileged         = true
      volumes            = jsonencode([{ name = "cache", emptyDir = { medium = "Memory" } }])
      volume_mounts      = jsonencode([{ name = "cache", mountPath = "/cache" }])
      labels             = { team = "ci" }
      annotations        = { "example.com/purpose" = "tests" }
    }
    label "spec" {
      type = "pod"
      spec = jsonencode({
        containers   = [{ name = "a", image = "debian:12" }, { name = "b", image = "debian:13" }]
        nodeSelector = { disk = "hdd" }
      })
      labels = { team = "other" }
    }
  }
}
`

// TestPodHasTheAttributesOfItsLabel reads pods as the API server has stored them.
func TestPodHasTheAttributesOfItsLabel(t *testing.T) {
	t.Parallel()
	at := newPlace(t, everything)
	at.contains(at.run(0, "apply", "-auto-approve"), "2 launched")
	read := func(label string) (pod corev1.Pod) {
		name := namespaceOf(t, "everything", label)
		testutil.Must(t, kube.Request(http.MethodGet, "/api/v1/namespaces/"+name+"/pods/"+name, nil, &pod))
		return pod
	}
	pod := read("attributes")
	c := pod.Spec.Containers[0]
	amounts := func(list corev1.ResourceList) (text []string) {
		for _, name := range []corev1.ResourceName{"cpu", "memory", "ephemeral-storage", "nvidia.com/gpu"} {
			amount := list[name]
			text = append(text, amount.String())
		}
		return text
	}
	got := []any{c.Image, c.ImagePullPolicy, pod.Spec.ImagePullSecrets, amounts(c.Resources.Requests), amounts(c.Resources.Limits), c.Env, pod.Spec.NodeSelector,
		pod.Spec.SchedulerName, *c.SecurityContext.Privileged, pod.Labels["team"], pod.Annotations["example.com/purpose"], c.VolumeMounts[0]}
	want := []any{"debian:12", corev1.PullAlways, []corev1.LocalObjectReference{{Name: "registry"}}, []string{"500m", "256Mi", "1G", "2"}, []string{"1", "256Mi", "1G", "2"},
		[]corev1.EnvVar{{Name: "A", Value: "1"}}, map[string]string{"disk": "ssd"}, "gang", true, "ci", "tests", corev1.VolumeMount{Name: "cache", MountPath: "/cache"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pod with attributes (-want +got):\n%s", diff)
	}
	if v := pod.Spec.Volumes[0]; v.Name != "cache" || v.EmptyDir == nil || v.EmptyDir.Medium != corev1.StorageMediumMemory {
		t.Errorf("volume is %+v", v)
	}
	pod = read("spec")
	if s := pod.Spec; len(s.Containers) != 2 || s.Containers[1].Image != "debian:13" || s.NodeSelector["disk"] != "hdd" || pod.Labels["team"] != "other" {
		t.Errorf("pod with a specification is %+v with labels %v", s, pod.Labels)
	}
	at.run(0, "destroy", "-auto-approve")
	mustHave(t, "everything")
}

// TestLeakedNamespaceIsDeleted adds a namespace with the ownership tags of a node that was deleted. Namespaces with only
// npctl's labels, or with the tags of another installation, stay.
func TestLeakedNamespaceIsDeleted(t *testing.T) {
	t.Parallel()
	at := newPlace(t, strings.Replace(config("leaky"), "npctl {", "npctl {\n  leak_age = \"1s\"", 1))
	at.run(0, "apply", "-auto-approve")
	want := []string{"namespace leaky-pod", "namespace leaky-space", "pod leaky-pod"}
	mustHave(t, "leaky", want...)
	var mine struct {
		Metadata struct {
			Labels, Annotations map[string]string
		}
	}
	leak := namespaceOf(t, "leaky", "leaky-space")
	testutil.Must(t, kube.Request(http.MethodGet, "/api/v1/namespaces/"+leak, nil, &mine))
	tags := mine.Metadata.Annotations["npctl/node"]
	installation := mine.Metadata.Labels["npctl/installation"]
	if !strings.Contains(tags, installation) || installation == "" {
		t.Fatalf("the tags %s do not contain the installation %q", tags, installation)
	}
	at.run(0, "destroy", "-auto-approve")
	mustHave(t, "leaky")
	for name, annotations := range map[string]map[string]string{
		leak:          {"npctl/node": tags},
		"leaky-copy":  {"npctl/node": tags},
		"leaky-other": {"npctl/node": strings.ReplaceAll(tags, installation, "another")},
		"leaky-label": nil,
	} {
		testutil.Must(t, kube.Request(http.MethodPost, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{
			"name": name, "annotations": annotations, "labels": map[string]string{"app.kubernetes.io/managed-by": "npctl", "npctl/pool": "main"}}}, nil))
	}
	exists := func(name string) bool {
		return kube.Request(http.MethodGet, "/api/v1/namespaces/"+name, nil, nil) == nil
	}
	at.run(0, "apply", "-auto-approve")
	at.contains(at.run(0, "unmanaged"), leak, "leaky-other")
	testutil.Await(t, "the leak is deleted", func() bool {
		at.run(0, "apply", "-auto-approve")
		return !exists(leak)
	})
	mustHave(t, "leaky", want...)
	at.run(0, "destroy", "-auto-approve")
	mustHave(t, "leaky")
	for _, name := range []string{"leaky-copy", "leaky-other", "leaky-label"} {
		if !exists(name) {
			t.Errorf("namespace %s of others is gone", name)
			continue
		}
		testutil.Must(t, kube.Request(http.MethodDelete, "/api/v1/namespaces/"+name, nil, nil))
	}
}

// TestDocumentedPermissionsSuffice runs npctl with the role of its page, and with less.
func TestDocumentedPermissionsSuffice(t *testing.T) {
	t.Parallel()
	_, rest, _ := strings.Cut(testutil.ReadFile(t, "../../docs/drivers/kubernetes.md"), "```yaml\n")
	role, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the page has no role")
	}
	file := t.TempDir() + "/role.yaml"
	admin := func(args ...string) {
		t.Helper()
		if out, err := kubectl(kube.Kubeconfig, args...); err != nil {
			t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	may := func(verb, resource string, want bool) { // the API server reads roles with a delay
		t.Helper()
		testutil.Await(t, fmt.Sprintf("%s %s is %t", verb, resource, want), func() bool {
			_, err := kubectl(kube.Kubeconfig, "auth", "can-i", verb, resource, "--as=documented", "--all-namespaces")
			return (err == nil) == want
		})
	}
	testutil.WriteFile(t, file, role)
	admin("create", "--validate=false", "-f", file) // without the download of the schema of the API
	admin("create", "clusterrolebinding", "npctl", "--clusterrole=npctl", "--user=documented")
	may("create", "rolebindings", true)
	at := newPlace(t, config("documented"))
	at.as(cluster.DocumentedToken)
	at.run(0, "apply", "-auto-approve")
	mustHave(t, "documented", "namespace documented-pod", "namespace documented-space", "pod documented-pod")

	replace := func(old, new string) {
		t.Helper()
		if !strings.Contains(role, old) {
			t.Fatalf("the role does not contain %s", old)
		}
		testutil.WriteFile(t, file, strings.Replace(role, old, new, 1))
		admin("replace", "--validate=false", "-f", file)
	}
	replace("[list, get, create, delete]", "[list, get, create]")
	may("delete", "namespaces", false)
	at.contains(at.run(1, "destroy", "-auto-approve"), `User "documented" cannot delete resource "namespaces"`)
	replace("resources: [pods], verbs: [list, get, create]", "resources: [pods], verbs: [list, get]")
	may("create", "pods", false)
	may("delete", "namespaces", true)
	at.run(0, "destroy", "-auto-approve")
	mustHave(t, "documented")
	at.contains(at.run(1, "apply", "-auto-approve"), `User "documented" cannot create resource "pods"`)
	at.run(0, "destroy", "-auto-approve")
	mustHave(t, "documented")
}
