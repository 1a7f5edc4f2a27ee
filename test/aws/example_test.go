//go:build integration

package aws

import (
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

// The example runs with an AMI that moto has, and without SSH, which moto's instances lack.
func TestExampleIsAppliedDriftedAndDestroyed(t *testing.T) {
	l := newLab(t, testutil.ReadFile(t, "../../examples/aws.hcl"))
	stay := l.foreign()
	l.cli(nil, "ec2", "create-key-pair", "--key-name", "ci")
	l.Args = []string{"-var", "key_name=ci", "-var", "image=amzn-ami-hvm-2017.09.*", "-var", "image_owner=137112412989", "-var", "host_key_checking=false", "-var", "min_ready=2"}
	l.MustContain(l.Run(2, "plan", "-detailed-exitcode"), "Plan: 0 to build, 0 to upload, 2 to launch, 0 to delete.")
	l.mustHave(nil)
	l.MustContain(l.Run(0, "apply", "-auto-approve"), "Apply complete: 0 built, 0 uploaded, 2 launched, 0 deleted.")
	l.mustHave(map[string]int{"instance": 2, "volume": 2})
	l.MustContain(l.Run(0, "plan", "-detailed-exitcode"), "No changes.")

	t.Log("an instance goes behind npctl's back")
	l.cli(nil, "ec2", "terminate-instances", "--instance-ids", l.owned()["instance"][0])
	l.MustContain(l.Run(2, "plan", "-detailed-exitcode"), "1 to launch")
	l.Run(0, "apply", "-auto-approve")
	l.mustHave(map[string]int{"instance": 2, "volume": 2})

	t.Log("a replacing attribute changes")
	l.Args = append(l.Args, "-var", `instance_types=["t3.medium"]`)
	l.MustContain(l.Run(2, "plan", "-detailed-exitcode"), "instance_types")
	l.Run(0, "apply", "-auto-approve")
	l.Run(0, "apply", "-auto-approve")
	l.mustHave(map[string]int{"instance": 2, "volume": 2})
	var types []string
	l.cli(&types, "ec2", "describe-instances", "--filters", "Name=tag-key,Values=npctl_installation", "Name=instance-state-name,Values=running", "--query", "Reservations[].Instances[].InstanceType")
	for _, name := range types {
		if name != "t3.medium" {
			t.Errorf("instance types are %v after the change", types)
		}
	}
	l.Run(0, "destroy", "-auto-approve")
	l.mustHave(nil)
	l.MustContain(l.Run(0, "destroy", "-auto-approve"), "No changes.")
	stay()
}

func TestUnknownNamesAreProblemsOfThePlan(t *testing.T) {
	l := newLab(t, testutil.ReadFile(t, "../../examples/aws.hcl"))
	l.cli(nil, "ec2", "create-key-pair", "--key-name", "ci-key")
	l.Args = []string{"-var", "key_name=ci-kez", "-var", "image=amzn-ami-hvm-2017.09.*", "-var", "image_owner=137112412989", "-var", `instance_types=["t3.smal"]`}
	l.MustContain(l.Run(1, "plan"), "t3.small", "ci-key", "npctl.hcl")
	l.Args = append(l.Args, "-var", "profile=absent")
	l.MustContain(l.Run(1, "plan"), "absent")
}
