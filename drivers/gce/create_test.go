package gce

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
	"google.golang.org/api/compute/v1"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/gce/gcetest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

func nodeSpec(id string, attributes map[string]cty.Value) drivers.Spec {
	return drivers.Spec{Marks: resources.OwnerTags{Installation: "install", Kind: resources.KindNode, ID: id}, Hostname: "np" + id, ImageID: gcetest.Image, Config: offerConfig(attributes)}
}

func TestNextMachineTypeIsTriedWithoutCapacity(t *testing.T) {
	s := gcetest.New(t)
	c := mustOpen(t, s, nil)
	exhausted := []string{"e2-small"}
	s.Fails = func(_, machineType string) (string, string) {
		if slices.Contains(exhausted, machineType) {
			return "ZONE_RESOURCE_POOL_EXHAUSTED", "The zone does not have enough resources available to fulfill the request."
		}
		return "", ""
	}
	types := map[string]cty.Value{"machine_types": words("e2-small", "e2-medium")}
	made, err := c.Create(t.Context(), nodeSpec("1", types))
	testutil.Must(t, err)
	if made.Flavor != "e2-medium" || made.Resources.RAM != 4096 {
		t.Errorf("instance is a %s with %d MiB, want the second type", made.Flavor, made.Resources.RAM)
	}
	s.Change(func(*gcetest.Server) { exhausted = append(exhausted, "e2-medium") })
	if _, err := c.Create(t.Context(), nodeSpec("2", types)); !errors.Is(err, drivers.ErrCapacity) || !drivers.IsNothingDone(err) || !strings.Contains(err.Error(), "tried e2-medium, e2-small") {
		t.Errorf("Create without capacity for any type: %v, want ErrCapacity", err)
	}
}

func TestFailedOperationsHaveTheirKind(t *testing.T) {
	s := gcetest.New(t)
	c := mustOpen(t, s, nil)
	code := ""
	s.Fails = func(_, _ string) (string, string) { return code, "no" }
	for name, kind := range map[string]error{"QUOTA_EXCEEDED": drivers.ErrQuota, "IP_SPACE_EXHAUSTED_WITH_DETAILS": drivers.ErrCapacity, "PERMISSIONS_ERROR": drivers.ErrRejected,
		"INTERNAL_ERROR": drivers.ErrUnavailable} {
		s.Change(func(*gcetest.Server) { code = name })
		_, err := c.Create(t.Context(), nodeSpec("1", nil))
		if proven := drivers.IsNothingDone(err); !errors.Is(err, kind) || proven == errors.Is(err, drivers.ErrUnavailable) {
			t.Errorf("%s: %v proves that nothing was done: %t; want %v", name, err, proven, kind)
		}
	}
}

func TestZonesWithoutTheMachineTypeAreNotOffered(t *testing.T) {
	c := mustOpen(t, gcetest.New(t), nil)
	for types, want := range map[string][]string{"n2-standard-4": {"europe-west1-b"}, "n2-standard-4 e2-small": {"europe-west1-b", "europe-west1-c", "europe-west1-d"}} {
		offer, problems, err := c.ResolveOffer(t.Context(), offerConfig(map[string]cty.Value{"machine_types": words(strings.Fields(types)...)}))
		if err != nil || len(problems) > 0 || !slices.Equal(offer.Zones, want) {
			t.Errorf("%s: zones %v, %v, %v; want %v", types, offer.Zones, problems, err, want)
		}
	}
	spec := nodeSpec("1", map[string]cty.Value{"machine_types": words("n2-standard-4", "e2-small")})
	spec.Zone = "europe-west1-c"
	if made, err := c.Create(t.Context(), spec); err != nil || made.Flavor != "e2-small" {
		t.Errorf("instance in a zone without the first type is %q, %v", made.Flavor, err)
	}
}

func TestInstanceOfAnotherZoneIsFoundAgain(t *testing.T) {
	c := mustOpen(t, gcetest.New(t), nil)
	spec := nodeSpec("1", nil)
	made, err := c.Create(t.Context(), spec)
	testutil.Must(t, err)
	spec.MaybeCreated, spec.Zone = true, "europe-west1-d"
	if again, err := c.Create(t.Context(), spec); err != nil || again.ID != made.ID {
		t.Errorf("Create again = %s, %v; want %s", again.ID, err, made.ID)
	}
}

func TestNameInUse(t *testing.T) {
	s := gcetest.New(t)
	c := mustOpen(t, s, nil)
	o := otherUser(t, s.Endpoint())
	spec := nodeSpec("1", nil)
	first, err := c.Create(t.Context(), spec)
	testutil.Must(t, err)
	if again, err := c.Create(t.Context(), spec); err != nil || again.ID != first.ID {
		t.Errorf("the same request returns %s, %v; want %s", again.ID, err, first.ID)
	}
	testutil.Must(t, c.Delete(t.Context(), first.ID, spec.Marks))
	if _, err := c.Create(t.Context(), spec); err == nil || !drivers.IsNothingDone(err) || errors.Is(err, drivers.ErrRejected) {
		t.Errorf("Create during the deletion: %v, want a transient error", err)
	}
	other := nodeSpec("2", nil)
	at, _ := placeOf(o.instance())
	other.Hostname = strings.TrimSuffix(at.name, nameSuffix(other.Marks.Installation))
	spoiled := instanceName(other.Hostname, other.Marks.Installation)
	_, err = o.Instances.Insert(gcetest.Project, gcetest.Zone, &compute.Instance{Name: spoiled, MachineType: "zones/" + gcetest.Zone + "/machineTypes/e2-small",
		Disks:             []*compute.AttachedDisk{{Boot: true, InitializeParams: &compute.AttachedDiskInitializeParams{SourceImage: gcetest.Image}}},
		NetworkInterfaces: []*compute.NetworkInterface{{Network: "global/networks/default"}}}).Do()
	testutil.Must(t, err)
	if _, err := c.Create(t.Context(), other); !errors.Is(err, drivers.ErrRejected) || !drivers.IsNothingDone(err) {
		t.Errorf("Create with the name of an instance of others: %v, want ErrRejected", err)
	}
}

func TestInstallationsInOneProjectHaveDifferentNames(t *testing.T) {
	if instanceName("np0000000001", "a") == instanceName("np0000000001", "b") {
		t.Error("the nodes of two installations have the same name")
	}
}

func TestAttributesReachTheInstance(t *testing.T) {
	s := gcetest.New(t)
	c := mustOpen(t, s, nil)
	spec := nodeSpec("1", everyAttribute())
	spec.Properties = map[string]string{"requestor": "Some One <a@b>"}
	made, err := c.Create(t.Context(), spec)
	testutil.Must(t, err)
	i, err := otherUser(t, s.Endpoint()).Instances.Get(gcetest.Project, gcetest.Zone, base(made.ID)).Do()
	testutil.Must(t, err)
	metadata := map[string]string{}
	for _, item := range i.Metadata.Items {
		metadata[item.Key] = *item.Value
	}
	for what, ok := range map[string]bool{
		"machine type":    base(i.MachineType) == "n2-standard-4",
		"user data":       metadata["user-data"] == "#cloud-config\n",
		"ssh keys":        metadata["ssh-keys"] == "zuul:ssh-ed25519 AAAA zuul\nroot:ssh-ed25519 BBBB",
		"metadata":        metadata["startup-script"] == "#!/bin/sh\n",
		"network":         i.NetworkInterfaces[0].Network == "global/networks/ci-network" && i.NetworkInterfaces[0].Subnetwork == "regions/europe-west1/subnetworks/ci-subnet",
		"public address":  len(i.NetworkInterfaces[0].AccessConfigs) == 0,
		"network tags":    slices.Equal(i.Tags.Items, []string{"ci"}),
		"service account": i.ServiceAccounts[0].Email == "default" && i.ServiceAccounts[0].Scopes[0] == compute.CloudPlatformScope,
		"labels":          i.Labels["team"] == "ci" && i.Labels["requestor"] == "some_one__a_b_" && i.Labels["npctl_node_id"] == "1",
		"spot":            i.Scheduling.ProvisioningModel == "SPOT" && i.Scheduling.InstanceTerminationAction == "DELETE" && !*i.Scheduling.AutomaticRestart,
		"nesting":         i.AdvancedMachineFeatures.EnableNestedVirtualization,
		"disk":            i.Disks[0].DiskSizeGb == 20 && i.Disks[0].AutoDelete,
	} {
		if !ok {
			t.Errorf("%s: the instance is %+v", what, i)
		}
	}
}

func TestInstanceThatStopsItselfHasFailed(t *testing.T) {
	one := instanceOf(&compute.Instance{Name: "a", Zone: "zones/b", Status: "TERMINATED", StatusMessage: "shut down"}, machineType{})
	if one.Status != resources.StatusFailed || !strings.Contains(one.Fault, "TERMINATED: shut down") {
		t.Errorf("instance is %s, %q", one.Status, one.Fault)
	}
}

func TestListWithoutAZoneIsAnError(t *testing.T) {
	s := gcetest.New(t)
	c := mustOpen(t, s, nil)
	_, err := c.Create(t.Context(), nodeSpec("1", nil))
	testutil.Must(t, err)
	s.Change(func(s *gcetest.Server) { s.Unreachable = []string{gcetest.Zone} })
	if list, err := c.List(t.Context()); !errors.Is(err, drivers.ErrUnavailable) || !strings.Contains(err.Error(), gcetest.Zone) {
		t.Errorf("List without a zone = %d instances, %v; want ErrUnavailable", len(list), err)
	}
	if left, err := c.Leftovers(t.Context()); !errors.Is(err, drivers.ErrUnavailable) {
		t.Errorf("Leftovers without a zone = %d, %v; want ErrUnavailable", len(left), err)
	}
}

func TestListHasAllPages(t *testing.T) {
	s := gcetest.New(t)
	c := mustOpen(t, s, nil)
	s.Fill(gcetest.Zone, 501)
	before := s.Calls()
	list, err := c.List(t.Context())
	testutil.Must(t, err)
	if calls := s.Calls() - before; len(list) != 501 || calls > 3 {
		t.Errorf("List returns %d instances with %d calls, want 501 with 2 pages and a machine type", len(list), calls)
	}
}

func TestMissingPermissionIsNamed(t *testing.T) {
	s := gcetest.New(t)
	c := mustOpen(t, s, nil)
	s.Change(func(s *gcetest.Server) { s.Denied = []string{"compute.instances.create"} })
	_, err := c.Create(t.Context(), nodeSpec("1", nil))
	if !errors.Is(err, drivers.ErrRejected) || !drivers.IsNothingDone(err) || !strings.Contains(err.Error(), "compute.instances.create") {
		t.Errorf("Create without the permission: %v", err)
	}
}

func TestUnknownRegionAndProjectAreNamed(t *testing.T) {
	s := gcetest.New(t)
	mustOpen(t, s, nil)
	for attribute, test := range map[string][2]string{"region": {"europe-west2", "did you mean europe-west"}, "project": {"ci-projec", "projects/ci-projec'"}} {
		_, err := openAt(t, s, map[string]cty.Value{attribute: cty.StringVal(test[0])}, nil)
		if !errors.Is(err, drivers.ErrRejected) || !strings.Contains(err.Error(), test[1]) {
			t.Errorf("unknown %s: %v, want %q", attribute, err, test[1])
		}
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "/absent.json")
	if _, err := openAt(t, s, nil, nil); !errors.Is(err, drivers.ErrRejected) || !strings.Contains(err.Error(), "gcloud auth") {
		t.Errorf("without credentials: %v", err)
	}
}
