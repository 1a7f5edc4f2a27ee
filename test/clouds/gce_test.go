//go:build integration

package clouds

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/api/compute/v1"
	"google.golang.org/api/option"

	"github.com/npctl/npctl/drivers/gce/gcetest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/test/gate"
	"github.com/npctl/npctl/test/program"
)

var google = cloud{
	open:    newGCE,
	node:    map[string]int{"instances": 1, "disks": 1},
	late:    true,
	example: []string{"project=" + gcetest.Project, `machine_types=["e2-small"]`},
	change:  `machine_types=["e2-medium"]`,
	changes: "machine_types",
	unknown: []unknown{
		{[]string{"network=defaul", `zones=["europe-west1-a"]`, "image_family=debian-1"}, []string{"default", "europe-west1-b", "debian-12", "npctl.hcl"}},
		{[]string{"region=europe-west2"}, []string{"europe-west1"}},
	},
	onDemand: `
npctl {
  state "bolt" { path = "npctl.db" }
}
variable "endpoint" { type = string }
label "small" {}
provider "gce" "google" {
  project  = "ci-project"
  region   = "europe-west1"
  endpoint = var.endpoint
  rate     = 100
  cloud_image "debian" {
    image_id        = "projects/debian-cloud/global/images/family/debian-12"
    username        = "user"
    connection_port = 2222
  }
  pool "main" {
    host_key_checking = false
    label "small" {
      image              = cloud_image.debian
      machine_types      = ["e2-small"]
      labels             = { purpose = "ci" }
      request_properties = { requestor = "{request.requestor}" }
    }
  }
}
`,
	calls: map[string]callsOf{"": {300, 500}},
}

// gce is a Compute Engine behind a proxy.
type gce struct {
	*lab
	other *compute.Service // of another user
}

// actionOf returns the method and the collection of a request, such as "POST instances" and "GET aggregated instances".
func actionOf(r *http.Request) string {
	_, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/compute/v1/projects/"), "/")
	parts := strings.Split(path, "/")
	switch {
	case strings.HasSuffix(path, "/wait"):
		return "wait"
	case parts[0] == "zones" && len(parts) > 2:
		return r.Method + " " + parts[2]
	default:
		return r.Method + " " + strings.Join(parts[:min(2, len(parts))], " ")
	}
}

func newGCE(t *testing.T, configuration string) *lab {
	t.Helper()
	server := gcetest.New(t)
	g := &gce{}
	g.lab = &lab{Recorder: &program.Recorder{Next: http.DefaultTransport, Name: actionOf}, peer: g}
	key := server.Credentials(t)
	g.Place = program.NewPlace(t, npctl, "GOOGLE_APPLICATION_CREDENTIALS="+key)
	g.Secrets = []string{"PRIVATE KEY", "ya29."}
	g.Args = variables("endpoint=" + (&gate.Gate{}).Serve(t, "gce", server.Endpoint(), g.Recorder))
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", key)
	var err error
	g.other, err = compute.NewService(context.WithoutCancel(t.Context()), option.WithEndpoint(server.Endpoint()))
	testutil.Must(t, err)
	g.Write(configuration)
	return g.lab
}

const ownedFilter = "labels.npctl_installation:*"

// instances returns the instances with ownership labels that are not being deleted.
func (g *gce) instances() (all []*compute.Instance) {
	g.T.Helper()
	list, err := g.other.Instances.AggregatedList(gcetest.Project).Filter(ownedFilter).Do()
	testutil.Must(g.T, err)
	for _, scope := range slices.Sorted(maps.Keys(list.Items)) {
		for _, i := range list.Items[scope].Instances {
			if i.Status != "STOPPING" {
				all = append(all, i)
			}
		}
	}
	return all
}

// owned returns the numbers of instances with ownership labels and of their boot disks.
func (g *gce) owned() map[string]int {
	g.T.Helper()
	list, err := g.other.Disks.AggregatedList(gcetest.Project).Filter(ownedFilter).Do()
	testutil.Must(g.T, err)
	numbers := map[string]int{}
	for _, scope := range list.Items {
		if n := len(scope.Disks); n > 0 {
			numbers["disks"] += n
		}
	}
	if n := len(g.instances()); n > 0 {
		numbers["instances"] = n
	}
	return numbers
}

// remove deletes an instance. Compute Engine deletes its disk, too.
func (g *gce) remove() {
	g.T.Helper()
	gone := g.instances()[0]
	_, err := g.other.Instances.Delete(gcetest.Project, base(gone.Zone), gone.Name).Do()
	testutil.Must(g.T, err)
	g.awaitObjects(map[string]int{"instances": 1, "disks": 1})
}

func (g *gce) changed() bool {
	g.T.Helper()
	return !slices.ContainsFunc(g.instances(), func(i *compute.Instance) bool { return base(i.MachineType) != "e2-medium" })
}

// foreign creates an instance of another user, with the name of a node, and returns a check that it remains.
func (g *gce) foreign() (stay func()) {
	g.T.Helper()
	const name = "np0000000001"
	_, err := g.other.Instances.Insert(gcetest.Project, gcetest.Zone, &compute.Instance{Name: name, MachineType: "zones/" + gcetest.Zone + "/machineTypes/e2-small",
		Disks:             []*compute.AttachedDisk{{Boot: true, InitializeParams: &compute.AttachedDiskInitializeParams{SourceImage: gcetest.Image}}},
		NetworkInterfaces: []*compute.NetworkInterface{{Network: "global/networks/default"}}}).Do()
	testutil.Must(g.T, err)
	return func() {
		g.T.Helper()
		i, err := g.other.Instances.Get(gcetest.Project, gcetest.Zone, name).Do()
		if err != nil || i.Status != "RUNNING" || len(i.Labels) > 0 {
			g.T.Errorf("the instance of another user is %+v, %v", i, err)
		}
	}
}

// shows compares a node with what the API shows.
func (g *gce) shows(t *testing.T, n resources.Node) {
	t.Helper()
	i, err := g.other.Instances.Get(gcetest.Project, n.Zone, base(n.ExternalID)).Do()
	testutil.Must(t, err)
	if i.NetworkInterfaces[0].AccessConfigs[0].NatIP != n.Addresses.PublicIPv4 || n.Region != gcetest.Region {
		t.Errorf("the API shows %+v, npctl %+v", i.NetworkInterfaces[0], n)
	}
	for key, want := range map[string]string{"npctl_node_id": n.ID, "purpose": "ci", "requestor": "tester"} {
		if i.Labels[key] != want {
			t.Errorf("instance has labels %v, want %s = %s", i.Labels, key, want)
		}
	}
}

// base returns the last part of a URL.
func base(url string) string { return url[strings.LastIndexByte(url, '/')+1:] }
