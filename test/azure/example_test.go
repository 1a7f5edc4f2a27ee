//go:build integration

package azure

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

func exampleLab(t *testing.T) *lab {
	t.Helper()
	l := newLab(t, testutil.ReadFile(t, "../../examples/azure.hcl"))
	l.Args = append(l.Args, "-var", "resource_group=ci", "-var", "network=lab", "-var", "ssh_public_key=ssh-ed25519 key", "-var", "host_key_checking=false", "-var", "min_ready=2",
		"-var", `vm_sizes=["Standard_D2s_v5"]`)
	return l
}

// The example runs without SSH, which the simulated nodes lack.
func TestExampleIsAppliedDriftedAndDestroyed(t *testing.T) {
	l := exampleLab(t)
	l.cloud.AddInterface(map[string]string{"owner": "another"})
	l.MustContain(l.Run(2, "plan", "-detailed-exitcode"), "Plan: 0 to build, 0 to upload, 2 to launch, 0 to delete.")
	l.mustHave(nodes(0))
	l.MustContain(l.Run(0, "apply", "-auto-approve"), "Apply complete: 0 built, 0 uploaded, 2 launched, 0 deleted.")
	l.mustHave(nodes(2))
	l.MustContain(l.Run(0, "plan", "-detailed-exitcode"), "No changes.")
	l.Quiet("the state", testutil.ReadFile(t, filepath.Join(l.Dir, ".npctl", "npctl.db")))

	t.Log("a machine goes behind npctl's back")
	for name := range l.cloud.Objects() {
		if kind, id, _ := strings.Cut(name, " "); kind == "vm" {
			l.remove("Microsoft.Compute/virtualMachines/" + id)
			break
		}
	}
	l.mustHave(nodes(1))
	l.MustContain(l.Run(2, "plan", "-detailed-exitcode"), "1 to launch")
	l.Run(0, "apply", "-auto-approve")
	l.mustHave(nodes(2))

	t.Log("a replacing attribute changes")
	l.Args = append(l.Args, "-var", `vm_sizes=["Standard_D4s_v5"]`)
	l.MustContain(l.Run(2, "plan", "-detailed-exitcode"), "vm_sizes")
	l.Run(0, "apply", "-auto-approve")
	l.Run(0, "apply", "-auto-approve")
	l.mustHave(nodes(2))
	l.Run(0, "destroy", "-auto-approve")
	l.mustHave(nodes(0))
	l.MustContain(l.Run(0, "destroy", "-auto-approve"), "No changes.")
	if all := l.cloud.Objects(); len(all) != 1 {
		t.Errorf("objects are %v, want that of another user", all)
	}
}

// remove deletes an object as another client would.
func (l *lab) remove(path string) {
	l.T.Helper()
	request, err := http.NewRequestWithContext(context.WithoutCancel(l.T.Context()), http.MethodDelete, "https://azure.test/subscriptions/11111111-2222-4333-8444-555555555555/resourceGroups/ci/providers/"+path+"?api-version=2025-04-01", nil)
	testutil.Must(l.T, err)
	request.Header.Set("Authorization", "Bearer "+l.cloud.Token())
	answer, err := l.cloud.RoundTrip(request)
	testutil.Must(l.T, err)
	testutil.Must(l.T, answer.Body.Close())
	if answer.StatusCode >= http.StatusBadRequest {
		l.T.Fatalf("DELETE %s: %s", path, answer.Status)
	}
}

func TestUnknownNamesAreProblemsOfThePlan(t *testing.T) {
	l := exampleLab(t)
	l.Args = append(l.Args, "-var", "network=lap", "-var", `vm_sizes=["Standard_D2s_v4"]`, "-var", "image=Debian:debian-12:12-gen3:latest")
	l.MustContain(l.Run(1, "plan"), "did you mean lab", "Standard_D2s_v5", "Debian:debian-12:12-gen2:latest", "npctl.hcl")
	l.Args = append(l.Args, "-var", "resource_group=cj")
	l.MustContain(l.Run(1, "plan"), "did you mean ci?")
	for i, variable := range l.Env {
		if strings.HasPrefix(variable, "AZURE_CLIENT_SECRET=") {
			l.Env[i] = "AZURE_CLIENT_SECRET=wrong"
		}
	}
	l.MustContain(l.Run(1, "plan"), "AADSTS7000215")
}
