package aws

import (
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

func TestFleetErrorIsThatOfTheMostHopefulType(t *testing.T) {
	one := func(code string) types.CreateFleetError {
		return types.CreateFleetError{ErrorCode: aws.String(code), ErrorMessage: aws.String("a message"),
			LaunchTemplateAndOverrides: &types.LaunchTemplateAndOverridesResponse{Overrides: &types.FleetLaunchTemplateOverrides{InstanceType: "t3.small"}}}
	}
	for name, test := range map[string]struct {
		codes []string
		kind  error
	}{
		"capacity":            {[]string{"InsufficientInstanceCapacity"}, drivers.ErrCapacity},
		"no spot capacity":    {[]string{"UnfulfillableCapacity"}, drivers.ErrCapacity},
		"quota":               {[]string{"VcpuLimitExceeded"}, drivers.ErrQuota},
		"spot quota":          {[]string{"MaxSpotInstanceCountExceeded"}, drivers.ErrQuota},
		"capacity over quota": {[]string{"InvalidParameterValue", "VcpuLimitExceeded", "InsufficientInstanceCapacity"}, drivers.ErrCapacity},
		"quota over rejected": {[]string{"InvalidParameterValue", "VcpuLimitExceeded"}, drivers.ErrQuota},
		"rejected":            {[]string{"InvalidParameterCombination"}, drivers.ErrRejected},
		"no reason":           {nil, drivers.ErrCapacity},
	} {
		var all []types.CreateFleetError
		for _, code := range test.codes {
			all = append(all, one(code))
		}
		err := fleetError("create instance np1", all)
		if !errors.Is(err, test.kind) || !drivers.IsNothingDone(err) || !strings.HasPrefix(err.Error(), "create instance np1") {
			t.Errorf("%s: %v, want %v", name, err, test.kind)
		}
	}
}

func fleetOffer(strategy, market string) offer {
	return offer{labelSettings{poolSettings: poolSettings{Allocation: strategy, MarketType: market}}, []instanceType{{name: "m7i.large"}, {name: "m6i.large"}}}
}

func TestFleetRequestNamesEveryType(t *testing.T) {
	spec := drivers.Spec{Marks: resources.OwnerTags{Installation: "i", Kind: resources.KindNode, ID: "1"}, Zone: "us-east-1a", ImageID: "ami-1"}
	in := ec2.RunInstancesInput{NetworkInterfaces: []types.InstanceNetworkInterfaceSpecification{{}}, TagSpecifications: tagSpecifications(drivers.EncodeTags(spec.Marks), true)}
	r := fleetRequest(spec, in, fleetOffer("capacity-optimized-prioritized", "spot"), "npctl-1")
	overrides := r.LaunchTemplateConfigs[0].Overrides
	if len(overrides) != 2 || overrides[1].InstanceType != "m6i.large" || aws.ToFloat64(overrides[1].Priority) != 1 || aws.ToString(overrides[1].AvailabilityZone) != "us-east-1a" {
		t.Errorf("overrides are %+v", overrides)
	}
	if r.Type != types.FleetTypeInstant || r.SpotOptions.AllocationStrategy != types.SpotAllocationStrategyCapacityOptimizedPrioritized || r.TargetCapacitySpecification.DefaultTargetCapacityType != "spot" {
		t.Errorf("request is %+v", r)
	}
	if len(r.TagSpecifications) != 4 || tagMap(r.TagSpecifications[1].Tags)[drivers.TagNodeID] != "1" {
		t.Errorf("tags are %+v", r.TagSpecifications)
	}
	again := fleetRequest(spec, in, fleetOffer("capacity-optimized-prioritized", "spot"), "npctl-1")
	other := fleetRequest(spec, in, fleetOffer("diversified", "spot"), "npctl-1")
	if aws.ToString(r.ClientToken) != aws.ToString(again.ClientToken) || aws.ToString(r.ClientToken) == aws.ToString(other.ClientToken) {
		t.Error("the client token does not identify the request")
	}
	in.NetworkInterfaces[0].SubnetId = aws.String("subnet-1")
	r = fleetRequest(spec, in, fleetOffer("lowest-price", ""), "npctl-1")
	override := r.LaunchTemplateConfigs[0].Overrides[0]
	if aws.ToString(override.SubnetId) != "subnet-1" || override.AvailabilityZone != nil || override.Priority != nil || r.OnDemandOptions.AllocationStrategy != "lowest-price" ||
		r.TargetCapacitySpecification.DefaultTargetCapacityType != "on-demand" || r.SpotOptions != nil {
		t.Errorf("request is %+v", r)
	}
}

func TestAttributesThatExcludeEachOtherAreProblems(t *testing.T) {
	for name, test := range map[string]struct {
		settings  poolSettings
		attribute string
	}{
		"prioritized spot":       {poolSettings{Allocation: "prioritized", MarketType: "spot"}, "allocation_strategy"},
		"diversified on demand":  {poolSettings{Allocation: "diversified", MarketType: "on-demand"}, "allocation_strategy"},
		"lowest price":           {poolSettings{Allocation: "lowest-price"}, ""},
		"lowest price spot":      {poolSettings{Allocation: "lowest-price", MarketType: "spot"}, ""},
		"host without a zone":    {poolSettings{DedicatedHost: true}, "dedicated_host"},
		"host for spot":          {poolSettings{DedicatedHost: true, MarketType: "spot", AvailabilityZones: []string{"a"}}, "dedicated_host"},
		"host with a strategy":   {poolSettings{DedicatedHost: true, Allocation: "prioritized", AvailabilityZones: []string{"a"}}, "dedicated_host"},
		"host in a subnet":       {poolSettings{DedicatedHost: true, SubnetIDs: []string{"subnet-1"}}, ""},
		"neither host nor fleet": {poolSettings{MarketType: "spot"}, ""},
	} {
		problems, err := drivers.ProblemsIn(test.settings.checkCombination())
		if err != nil || len(problems) > 1 || (len(problems) == 0) != (test.attribute == "") || test.attribute != "" && problems[0].Attribute != test.attribute {
			t.Errorf("%s: %v, %v, want a problem of %q", name, problems, err, test.attribute)
		}
	}
}
