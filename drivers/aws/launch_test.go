//go:build integration

package aws

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// fleetFull is a response of CreateFleet as its reference describes it.
func fleetFull() *response {
	return &response{200, `<?xml version="1.0" encoding="UTF-8"?><CreateFleetResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>1</requestId><fleetId>fleet-1</fleetId>
<errorSet><item><errorCode>VcpuLimitExceeded</errorCode><errorMessage>You have requested more vCPU capacity than your current vCPU limit of 32 allows.</errorMessage><lifecycle>on-demand</lifecycle>
<launchTemplateAndOverrides><overrides><instanceType>t3.small</instanceType></overrides></launchTemplateAndOverrides></item></errorSet><fleetInstanceSet/></CreateFleetResponse>`}
}

func leftoversOf(t *testing.T, c *Cloud, kind string) (found []resources.Leftover) {
	t.Helper()
	all, err := c.Leftovers(t.Context())
	testutil.Must(t, err)
	for _, l := range all {
		if l.Type == kind {
			found = append(found, l)
		}
	}
	return found
}

func TestMotoNodesOfAnOfferShareALaunchTemplate(t *testing.T) {
	resetMoto(t)
	w := &wire{}
	c := mustOpen(t, w)
	spot := map[string]cty.Value{"instance_types": words("t3.small", "t3.medium"), "allocation_strategy": cty.StringVal("price-capacity-optimized"), "market_type": cty.StringVal("spot"),
		"userdata": cty.StringVal("#cloud-config\n"), "imdsv2": cty.StringVal("required"), "volume_size": cty.NumberIntVal(20), "iam_instance_profile": cty.StringVal("ci"),
		"tags": cty.MapVal(map[string]cty.Value{"team": cty.StringVal("ci")})}
	var ids []string
	for n := range 3 {
		spec := nodeSpec(fmt.Sprint("fleet-", n), spot)
		made, err := c.Create(t.Context(), spec)
		testutil.Must(t, err)
		ids = append(ids, made.ID)
		again, found, err := c.find(t.Context(), spec)
		if err != nil || !found || again.ID != made.ID || again.Name != spec.Hostname || again.Flavor != made.Flavor {
			t.Errorf("the instance of %s is %+v, %t, %v; Create returned %+v", spec.Hostname, again, found, err, made)
		}
	}
	if w.calls["CreateLaunchTemplate"] != 1 || w.calls["CreateFleet"] != 4 {
		t.Errorf("3 nodes made the calls %v, want one launch template", w.calls)
	}
	if left := leftoversOf(t, c, resources.LeftoverLaunchTemplate); len(left) != 0 {
		t.Errorf("a launch template with instances is a leftover: %v", left)
	}
	for n, id := range ids[:2] {
		deleteWhole(t, c, id, nodeSpec(fmt.Sprint("fleet-", n), nil).Marks)
	}
	if w.calls["DeleteLaunchTemplate"] != 0 {
		t.Error("a launch template with an instance was deleted")
	}
	_, err := sdk(t).TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: ids[2:]})
	testutil.Must(t, err)
	left := leftoversOf(t, c, resources.LeftoverLaunchTemplate)
	if len(left) != 1 || left[0].Marks.Installation != "integration" || left[0].Marks.ID != left[0].Name {
		t.Fatalf("leftovers without instances are %v, want the launch template", left)
	}
	other := left[0]
	other.Marks.ID = "another"
	if err := c.DeleteLeftover(t.Context(), other); !errors.Is(err, drivers.ErrNotOurs) {
		t.Errorf("deletion with other ownership tags: %v", err)
	}
	testutil.Must(t, c.DeleteLeftover(t.Context(), left[0]))
	testutil.Must(t, c.DeleteLeftover(t.Context(), left[0]))
	if left := leftoversOf(t, c, resources.LeftoverLaunchTemplate); len(left) != 0 {
		t.Errorf("leftovers after the deletion: %v", left)
	}
	last := nodeSpec("fleet-9", spot)
	made, err := c.Create(t.Context(), last)
	testutil.Must(t, err)
	deleteWhole(t, c, made.ID, last.Marks)
	if left := leftoversOf(t, c, resources.LeftoverLaunchTemplate); len(left) != 0 {
		t.Errorf("leftovers after the deletion of the last instance: %v", left)
	}
}

// deleteWhole deletes an instance and what it leaves.
func deleteWhole(t *testing.T, c *Cloud, id string, marks resources.OwnerTags) {
	t.Helper()
	testutil.Must(t, c.Delete(t.Context(), id, marks))
	_, err := c.List(t.Context())
	testutil.Must(t, err)
	testutil.Must(t, c.FinishDeletion(t.Context(), id))
}

// hostStates returns the states of all dedicated hosts.
func hostStates(t *testing.T) (states []string) {
	t.Helper()
	answer, err := sdk(t).DescribeHosts(t.Context(), &ec2.DescribeHostsInput{})
	testutil.Must(t, err)
	for _, h := range answer.Hosts {
		states = append(states, string(h.State))
	}
	return states
}

func TestMotoDedicatedHostIsReleasedWithItsInstance(t *testing.T) {
	resetMoto(t)
	w := &wire{}
	c := mustOpen(t, w)
	spec := nodeSpec("host-1", map[string]cty.Value{"dedicated_host": cty.True, "availability_zones": words(motoZone)})
	spec.Zone = motoZone
	w.answer("RunInstances", quotaFull)
	if _, err := c.Create(t.Context(), spec); !errors.Is(err, drivers.ErrQuota) {
		t.Errorf("Create without a quota: %v", err)
	}
	if states := hostStates(t); len(states) != 1 || states[0] != "released" {
		t.Errorf("hosts after a rejected instance are %v", states)
	}
	w.answer("RunInstances", nil)
	made, err := c.Create(t.Context(), spec)
	testutil.Must(t, err)
	if made.HostID == "" {
		t.Errorf("instance is %+v, want one with a host", made)
	}
	left := leftoversOf(t, c, resources.LeftoverHost)
	if len(left) != 1 || left[0].ID != made.HostID || !left[0].Marks.SameRecord(spec.Marks) {
		t.Errorf("hosts are %v, want %s", left, made.HostID)
	}
	testutil.Must(t, c.Delete(t.Context(), made.ID, spec.Marks))
	_, err = c.List(t.Context())
	testutil.Must(t, err)
	if states := hostStates(t); len(states) != 2 || states[1] == "released" {
		t.Errorf("hosts after a listing are %v: a listing changes nothing", states)
	}
	testutil.Must(t, c.FinishDeletion(t.Context(), made.ID))
	if states := hostStates(t); len(states) != 2 || states[0] != "released" || states[1] != "released" {
		t.Errorf("hosts after the deletion are %v", states)
	}
}

func TestMotoHostOfAnInterruptedLaunchIsUsedAgain(t *testing.T) {
	resetMoto(t)
	w := &wire{}
	c := mustOpen(t, w)
	spec := nodeSpec("host-2", map[string]cty.Value{"dedicated_host": cty.True, "availability_zones": words(motoZone)})
	spec.Zone = motoZone
	w.loseNext("AllocateHosts")
	if _, err := c.Create(t.Context(), spec); err == nil || drivers.IsNothingDone(err) {
		t.Errorf("Create without a response: %v", err)
	}
	left := leftoversOf(t, c, resources.LeftoverHost)
	if len(left) != 1 || left[0].InUse {
		t.Fatalf("leftovers are %v, want the host", left)
	}
	spec.MaybeCreated = true
	made, err := c.Create(t.Context(), spec)
	testutil.Must(t, err)
	if made.HostID != left[0].ID {
		t.Errorf("instance is on host %q, want %q", made.HostID, left[0].ID)
	}
	testutil.Must(t, c.Delete(t.Context(), made.ID, spec.Marks))
	testutil.Must(t, c.DeleteLeftover(t.Context(), left[0]))
	if states := hostStates(t); len(states) != 1 || states[0] != "released" {
		t.Errorf("hosts are %v", states)
	}
}

func TestMotoVolumesAndHostsCountInQuotas(t *testing.T) {
	resetMoto(t)
	c := mustOpen(t, &wire{})
	disk := map[string]cty.Value{"volume_type": cty.StringVal("gp3"), "volume_size": cty.NumberIntVal(20), "dedicated_host": cty.True, "availability_zones": words(motoZone)}
	resolved, problems, err := c.ResolveOffer(t.Context(), offerConfig(disk))
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	want := map[string]int64{"L-8B27377A": 1, "L-7A658B76": 20}
	if !maps.Equal(resolved.Resources.Other, want) {
		t.Errorf("the offer uses %v, want %v", resolved.Resources.Other, want)
	}
	made, err := c.Create(t.Context(), nodeSpec("quota", disk))
	testutil.Must(t, err)
	if !maps.Equal(made.Resources.Other, want) {
		t.Errorf("the node uses %v, want %v", made.Resources.Other, want)
	}
	before, err := c.Quota(t.Context())
	testutil.Must(t, err)
	if limit := before.Limit.Other; limit["L-7A658B76"] != 50*1024 || limit["L-8B27377A"] != 2 || limit["L-B3A130E6"] != 300000 {
		t.Errorf("limits are %v", limit)
	}
	_, err = sdk(t).CreateVolume(t.Context(), &ec2.CreateVolumeInput{AvailabilityZone: aws.String(motoZone), Size: aws.Int32(7), VolumeType: "gp3"})
	testutil.Must(t, err)
	after, err := c.Quota(t.Context())
	testutil.Must(t, err)
	if used := after.Used.Other["L-7A658B76"] - before.Used.Other["L-7A658B76"]; used != 7 || after.Used.Other["L-8B27377A"] != 1 {
		t.Errorf("a volume of 7 GiB of others changed the use from %v to %v", before.Used.Other, after.Used.Other)
	}
}
