//go:build integration

package gce

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"
	"google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/drivers/gce/gcetest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// gcplocal returns the URL of the gcplocal that test/clouds/run.sh starts, and empties it.
func gcplocal(t *testing.T) string {
	t.Helper()
	at := os.Getenv("NPCTL_TEST_GCPLOCAL")
	if at == "" {
		t.Fatal("NPCTL_TEST_GCPLOCAL is empty; run test/clouds/run.sh")
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at+"/reset", nil)
	testutil.Must(t, err)
	answer, err := http.DefaultClient.Do(request)
	testutil.Must(t, err)
	testutil.Must(t, answer.Body.Close())
	return at
}

// gcplocal checks no images, networks and quotas, creates no boot disks, and knows no attachments.
func TestGcplocalContract(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Setup {
		s, l := gcetest.New(t), &lossy{}
		endpoint := s.Gcplocal(t, gcplocal(t))
		t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", s.Credentials(t))
		open := func(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) *Cloud {
			t.Helper()
			c, err := openAt(t, s, map[string]cty.Value{"endpoint": cty.StringVal(endpoint)}, wrap)
			testutil.Must(t, err)
			return c
		}
		o := otherUser(t, endpoint)
		const inDouble = "gcplocal cannot; TestContract does it in the double"
		return drivertest.Setup{
			Cloud:   open(t, l.wrap),
			Reopen:  func(t *testing.T) drivers.Cloud { return open(t, nil) },
			Config:  offerConfig(nil),
			ImageID: gcetest.Image,
			Lacks:   []string{"images", "access", "snapshots", "adopter"},
			Rejected: map[string]func(*drivers.Spec){
				"unknown zone": func(s *drivers.Spec) { s.Zone = "europe-west1-x" },
			},
			Foreign: func(*testing.T) string { return o.instance() },
			Leftovers: map[string]drivertest.Leftover{
				resources.LeftoverVolume: {Leave: func(_ *testing.T, m resources.OwnerTags) resources.Leftover { return o.leave(m) }, Unused: inDouble},
			},
			LoseNextAnswer: func(*testing.T) { l.armed.Store(true) },
			Omits: drivertest.NotCreated(map[string]string{
				"Attach": inDouble, "Calls": inDouble, "Exhaust": inDouble, "FillQuota": inDouble, "OpenWrong": inDouble, "Spoil": inDouble, "Withdraw": inDouble,
			}, others...),
		}
	}, "Instances", "Sweeper", "Errors")
}

// transcript executes calls that gcplocal and gcetest have, and returns their results.
func transcript(t *testing.T, endpoint string) (lines []string) {
	t.Helper()
	s, err := compute.NewService(t.Context(), option.WithEndpoint(endpoint))
	testutil.Must(t, err)
	say := func(format string, values ...any) { lines = append(lines, fmt.Sprintf(format, values...)) }
	status := func(err error) int {
		var e *googleapi.Error
		if errors.As(err, &e) {
			return e.Code
		}
		testutil.Must(t, err)
		return http.StatusOK
	}
	const project, zone = gcetest.Project, gcetest.Zone
	c := &Cloud{project: project, region: gcetest.Region}
	settings, err := decodeOffer(offerConfig(everyAttribute()))
	testutil.Must(t, err)
	labels, err := ownerLabels(resources.OwnerTags{Installation: "i", Kind: resources.KindNode, ID: "1", Image: "cloud_image.x"})
	testutil.Must(t, err)
	request := c.request(drivers.Spec{Hostname: "np1", ImageID: gcetest.Image}, settings, zone, labels)
	request.MachineType = "zones/" + zone + "/machineTypes/e2-small"

	op, err := s.Instances.Insert(project, zone, request).Do()
	say("insert %d %s", status(err), op.OperationType)
	op, err = s.ZoneOperations.Get(project, zone, op.Name).Do()
	say("operation %d %s", status(err), op.Status)
	var i *compute.Instance
	testutil.Await(t, "the instance runs", func() bool {
		_, err := s.Instances.List(project, zone).Do()
		testutil.Must(t, err)
		i, err = s.Instances.Get(project, zone, request.Name).Do()
		testutil.Must(t, err)
		return i.Status == "RUNNING"
	})
	say("instance %s %s %s %v %v %v %v", i.Name, base(i.Zone), base(i.MachineType), i.Labels, i.Tags.Items, i.Scheduling.ProvisioningModel, i.ServiceAccounts[0].Email)
	for _, item := range i.Metadata.Items {
		say("metadata %s %q", item.Key, *item.Value)
	}
	list, err := s.Instances.List(project, zone).Do()
	say("list %d", status(err))
	for _, one := range list.Items {
		say("listed %s", one.Name)
	}
	_, err = s.Instances.Get(project, zone, "absent").Do()
	say("get absent instance %d", status(err))
	_, err = s.Instances.Delete(project, zone, "absent").Do()
	say("delete absent instance %d", status(err))
	op, err = s.Instances.Delete(project, zone, request.Name).Do()
	say("delete %d %s", status(err), op.OperationType)
	testutil.Await(t, "the instance is gone", func() bool {
		_, err := s.Instances.List(project, zone).Do()
		testutil.Must(t, err)
		_, err = s.Instances.Get(project, zone, request.Name).Do()
		return status(err) == http.StatusNotFound
	})

	_, err = s.Disks.Insert(project, zone, &compute.Disk{Name: "d", SizeGb: 7, Labels: labels}).Do()
	say("insert disk %d", status(err))
	d, err := s.Disks.Get(project, zone, "d").Do()
	say("disk %d %s %d %v", status(err), d.Name, d.SizeGb, slices.Sorted(maps.Keys(d.Labels)))
	_, err = s.Disks.Delete(project, zone, "d").Do()
	say("delete disk %d", status(err))
	_, err = s.Disks.Get(project, zone, "d").Do()
	say("get deleted disk %d", status(err))
	return lines
}

func TestDoubleRespondsAsGcplocal(t *testing.T) {
	s := gcetest.New(t)
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", s.Credentials(t))
	of := transcript(t, s.Gcplocal(t, gcplocal(t)))
	if diff := cmp.Diff(of, transcript(t, s.Endpoint())); diff != "" {
		t.Errorf("gcetest responds differently (-gcplocal +gcetest):\n%s", diff)
	}
}
