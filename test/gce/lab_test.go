//go:build integration

package gce

import (
	"context"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/api/compute/v1"
	"google.golang.org/api/option"

	"github.com/npctl/npctl/drivers/gce/gcetest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/gate"
	"github.com/npctl/npctl/test/program"
)

// npctl is the path of the program under test.
var npctl string

func TestMain(m *testing.M) { os.Exit(program.Main(m, &npctl)) }

// lab is a directory with a configuration, and a Compute Engine behind a proxy.
type lab struct {
	*program.Place
	*program.Recorder
	server   *gcetest.Server
	endpoint string
	other    *compute.Service // of another user
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

func newLab(t *testing.T, configuration string) *lab {
	t.Helper()
	l := &lab{server: gcetest.New(t), Recorder: &program.Recorder{Next: http.DefaultTransport, Name: actionOf}}
	key := l.server.Credentials(t)
	l.Place = program.NewPlace(t, npctl, "GOOGLE_APPLICATION_CREDENTIALS="+key)
	l.Secrets = []string{"PRIVATE KEY", "ya29."}
	l.endpoint = (&gate.Gate{}).Serve(t, "gce", l.server.Endpoint(), l.Recorder)
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", key)
	var err error
	l.other, err = compute.NewService(context.WithoutCancel(t.Context()), option.WithEndpoint(l.server.Endpoint()))
	testutil.Must(t, err)
	l.Write(strings.ReplaceAll(configuration, "ENDPOINT", l.endpoint))
	return l
}

const ownedFilter = "labels.npctl_installation:*"

// instances returns the instances with ownership labels that are not being deleted.
func (l *lab) instances() (all []*compute.Instance) {
	l.T.Helper()
	list, err := l.other.Instances.AggregatedList(gcetest.Project).Filter(ownedFilter).Do()
	testutil.Must(l.T, err)
	for _, scope := range slices.Sorted(maps.Keys(list.Items)) {
		for _, i := range list.Items[scope].Instances {
			if i.Status != "STOPPING" {
				all = append(all, i)
			}
		}
	}
	return all
}

// numbers returns the numbers of instances with ownership labels and of their boot disks.
func (l *lab) numbers() map[string]int {
	l.T.Helper()
	list, err := l.other.Disks.AggregatedList(gcetest.Project).Filter(ownedFilter).Do()
	testutil.Must(l.T, err)
	numbers := map[string]int{}
	for _, scope := range list.Items {
		if n := len(scope.Disks); n > 0 {
			numbers["disks"] += n
		}
	}
	if n := len(l.instances()); n > 0 {
		numbers["instances"] = n
	}
	return numbers
}

func (l *lab) mustHave(want int) {
	l.T.Helper()
	testutil.Await(l.T, "the number of instances and disks", func() bool {
		now := l.numbers()
		return now["instances"] == want && now["disks"] == want
	})
}

func (l *lab) deleteInstance(name, zone string) {
	l.T.Helper()
	_, err := l.other.Instances.Delete(gcetest.Project, zone, name).Do()
	testutil.Must(l.T, err)
}

// foreign creates an instance of another user, with the name of a node, and returns a check that it remains.
func (l *lab) foreign() (stay func()) {
	l.T.Helper()
	const name = "np0000000001"
	_, err := l.other.Instances.Insert(gcetest.Project, gcetest.Zone, &compute.Instance{Name: name, MachineType: "zones/" + gcetest.Zone + "/machineTypes/e2-small",
		Disks:             []*compute.AttachedDisk{{Boot: true, InitializeParams: &compute.AttachedDiskInitializeParams{SourceImage: gcetest.Image}}},
		NetworkInterfaces: []*compute.NetworkInterface{{Network: "global/networks/default"}}}).Do()
	testutil.Must(l.T, err)
	return func() {
		l.T.Helper()
		i, err := l.other.Instances.Get(gcetest.Project, gcetest.Zone, name).Do()
		if err != nil || i.Status != "RUNNING" || len(i.Labels) > 0 {
			l.T.Errorf("the instance of another user is %+v, %v", i, err)
		}
	}
}

// base returns the last part of a URL.
func base(url string) string { return url[strings.LastIndexByte(url, '/')+1:] }
