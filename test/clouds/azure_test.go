//go:build integration

package clouds

import (
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/npctl/npctl/drivers/azure/azuretest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/test/program"
)

var azure = cloud{
	open:    func(t *testing.T, configuration string) *lab { return newAzure(t, configuration).lab },
	node:    map[string]int{"vm": 1, "nic": 1, "ip": 1, "disk": 1},
	late:    true,
	example: []string{"resource_group=ci", "network=lab", "ssh_public_key=ssh-ed25519 key", `vm_sizes=["Standard_D2s_v5"]`},
	change:  `vm_sizes=["Standard_D4s_v5"]`,
	changes: "vm_sizes",
	unknown: []unknown{
		{[]string{"network=lap", `vm_sizes=["Standard_D2s_v4"]`, "image=Debian:debian-12:12-gen3:latest"},
			[]string{"did you mean lab", "Standard_D2s_v5", "Debian:debian-12:12-gen2:latest", "npctl.hcl"}},
		{[]string{"resource_group=cj"}, []string{"did you mean ci?"}},
	},
	onDemand: `
npctl {
  leak_age = "1s"
  state "bolt" { path = "npctl.db" }
}
variable "endpoint" { type = string }
label "small" {}
provider "azure" "blue" {
  resource_group = "ci"
  endpoint       = var.endpoint
  rate           = 100
  cloud_image "debian" {
    image_id        = "` + azuretest.Marketplace + `"
    username        = "user"
    connection_port = 2222
  }
  pool "main" {
    network           = "lab"
    ssh_public_key    = "ssh-ed25519 key"
    host_key_checking = false
    label "small" {
      image              = cloud_image.debian
      vm_sizes           = ["Standard_B1s"]
      tags               = { purpose = "ci" }
      request_properties = { requestor = "{request.requestor}" }
    }
  }
}
`,
	calls: map[string]callsOf{"": {300, 500}, ".Begin": {300, 300}, "VirtualMachinesClient.BeginCreateOrUpdate": {100, 100}, "DisksClient.BeginUpdate": {100, 100}},
}

// azureLab is a cloud that the processes reach by HTTPS.
type azureLab struct {
	*lab
	cloud *azuretest.Cloud
}

func newAzure(t *testing.T, configuration string) *azureLab {
	t.Helper()
	a := &azureLab{cloud: azuretest.New()}
	a.lab = &lab{Place: program.NewPlace(t, npctl), Recorder: &program.Recorder{}, peer: a}
	a.cloud.MaxCores(100)
	server := a.cloud.Serve(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if api := azuretest.APIOf(r.Method, r.URL.Path); api != "login" {
				a.Note(api)
			}
			next.ServeHTTP(w, r)
		})
	})
	t.Cleanup(server.Close)
	authority := filepath.Join(a.Dir, "authority.pem")
	testutil.WriteFile(t, authority, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	a.Env = append(a.Env, "SSL_CERT_FILE="+authority, "AZURE_AUTHORITY_HOST="+server.URL, "AZURE_TOKEN_CREDENTIALS=EnvironmentCredential",
		"AZURE_TENANT_ID="+azuretest.Tenant, "AZURE_CLIENT_ID="+azuretest.Client, "AZURE_CLIENT_SECRET="+azuretest.Secret, "AZURE_SUBSCRIPTION_ID="+azuretest.Subscription)
	a.Secrets = []string{azuretest.Secret, "token-of-the-test", "signature-of-the-test"}
	a.Args = variables("endpoint=" + server.URL)
	a.Write(configuration)
	return a
}

func (a *azureLab) owned() map[string]int {
	found := map[string]int{}
	for name, tags := range a.cloud.Objects() {
		kind, _, _ := strings.Cut(name, " ")
		if tags["npctl_installation"] != "" {
			found[kind]++
		}
	}
	return found
}

func (a *azureLab) foreign() (stay func()) {
	a.cloud.AddInterface(map[string]string{"owner": "another"})
	return func() {
		a.T.Helper()
		if all := a.cloud.Objects(); len(all) != 1 {
			a.T.Errorf("objects are %v, want that of another user", all)
		}
	}
}

// machines returns the names of the virtual machines.
func (a *azureLab) machines() (names []string) {
	for name := range a.cloud.Objects() {
		if kind, id, _ := strings.Cut(name, " "); kind == "vm" {
			names = append(names, id)
		}
	}
	slices.Sort(names)
	return names
}

// remove deletes a machine. Azure deletes its other objects, too.
func (a *azureLab) remove() {
	a.T.Helper()
	a.call(http.MethodDelete, a.machines()[0])
	a.awaitObjects(map[string]int{"vm": 1, "nic": 1, "ip": 1, "disk": 1})
}

// call makes a request for a machine, as another client would, and returns the body of the response.
func (a *azureLab) call(method, machine string) string {
	a.T.Helper()
	request, err := http.NewRequestWithContext(context.WithoutCancel(a.T.Context()), method, "https://azure.test/subscriptions/"+azuretest.Subscription+
		"/resourceGroups/ci/providers/Microsoft.Compute/virtualMachines/"+machine+"?api-version=2025-04-01", nil)
	testutil.Must(a.T, err)
	request.Header.Set("Authorization", "Bearer "+a.cloud.Token())
	answer, err := a.cloud.RoundTrip(request)
	testutil.Must(a.T, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	testutil.Must(a.T, err)
	if answer.StatusCode >= http.StatusBadRequest {
		a.T.Fatalf("%s %s: %s", method, machine, answer.Status)
	}
	return string(text)
}

func (a *azureLab) changed() bool {
	a.T.Helper()
	return !slices.ContainsFunc(a.machines(), func(name string) bool { return !strings.Contains(a.call(http.MethodGet, name), "Standard_D4s_v5") })
}

func (a *azureLab) shows(t *testing.T, n resources.Node) {
	t.Helper()
	if n.Region != azuretest.Location {
		t.Errorf("node is in region %s, want %s", n.Region, azuretest.Location)
	}
	for name, tags := range a.cloud.Objects() {
		if tags["owner"] == "" && (tags["npctl_node_id"] != n.ID || tags["npctl_name"] != "np"+n.ID || tags["purpose"] != "ci" || tags["requestor"] != "tester") {
			t.Errorf("%s has tags %v", name, tags)
		}
	}
}

func TestWrongSecretOfAzure(t *testing.T) {
	a := newAzure(t, testutil.ReadFile(t, "../../examples/azure.hcl"))
	a.Args = append(a.Args, variables(azure.example...)...)
	for i, variable := range a.Env {
		if strings.HasPrefix(variable, "AZURE_CLIENT_SECRET=") {
			a.Env[i] = "AZURE_CLIENT_SECRET=wrong"
		}
	}
	a.MustContain(a.Run(1, "plan"), "AADSTS7000215")
}
