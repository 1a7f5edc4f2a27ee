//go:build integration

package ibmvpc

import (
	"strings"
	"testing"

	"github.com/npctl/npctl/drivers/ibmvpc/ibmvpctest"
	"github.com/npctl/npctl/internal/testutil"
)

// arguments are the variables of the example; the instances of the cloud have no SSH.
func arguments(more ...string) []string {
	args := []string{"-var", "region=" + ibmvpctest.Region, "-var", "vpc=" + ibmvpctest.VPC, "-var", "image=ibm-debian-12-minimal-*", "-var", "host_key_checking=false", "-var", "min_ready=2"}
	return append(args, more...)
}

func TestExampleIsAppliedDriftedAndDestroyed(t *testing.T) {
	l := newLab(t, testutil.ReadFile(t, "../../examples/ibmvpc.hcl"))
	stay := l.foreign()
	l.Args = arguments("-var", "key=ci")
	two := map[string]int{"instances": 2, "volumes": 2, "floating_ips": 2}
	l.MustContain(l.Run(2, "plan", "-detailed-exitcode"), "Plan: 0 to build, 0 to upload, 2 to launch, 0 to delete.")
	l.mustHave(map[string]int{})
	l.MustContain(l.Run(0, "apply", "-auto-approve"), "Apply complete: 0 built, 0 uploaded, 2 launched, 0 deleted.")
	l.mustHave(two)
	l.MustContain(l.Run(0, "plan", "-detailed-exitcode"), "No changes.")

	t.Log("an instance goes behind npctl's back, and its floating IP stays")
	for _, name := range l.Names("instances") {
		if strings.HasPrefix(name, "npctl-") {
			l.Remove("instances", l.ID("instances", name))
			break
		}
	}
	l.MustContain(l.Run(2, "plan", "-detailed-exitcode"), "1 to launch")
	l.settle("apply", two)

	t.Log("a replacing attribute changes")
	l.Args = append(l.Args, "-var", `profiles=["bx2-4x16"]`)
	l.MustContain(l.Run(2, "plan", "-detailed-exitcode"), "profiles")
	l.settle("apply", two)
	l.Modify("instances", func(d map[string]any) {
		if name, _ := d["name"].(string); strings.HasPrefix(name, "npctl-") && d["status"] == "running" && d["memory"] != int64(16) {
			t.Errorf("instance %s has %v GiB after the change", name, d["memory"])
		}
	})
	l.settle("destroy", map[string]int{})
	l.MustContain(l.Run(0, "destroy", "-auto-approve"), "No changes.")
	stay()
}

func TestUnknownNamesAreProblemsOfThePlan(t *testing.T) {
	l := newLab(t, testutil.ReadFile(t, "../../examples/ibmvpc.hcl"))
	l.Args = arguments("-var", "key=co", "-var", `profiles=["cx2-2x5"]`, "-var", `security_groups=["shh"]`)
	l.MustContain(l.Run(1, "plan"), "cx2-2x4", "ssh", "keys", "npctl.hcl")
	l.Args = arguments("-var", "key=ci", "-var", "vpc=cii")
	l.MustContain(l.Run(1, "plan"), "did you mean ci?")
}
