//go:build integration

package gce

import (
	"testing"

	"github.com/npctl/npctl/drivers/gce/gcetest"
	"github.com/npctl/npctl/internal/testutil"
)

// exampleArgs run the example without SSH, which the instances lack.
func (l *lab) exampleArgs(more ...string) []string {
	return append([]string{"-var", "project=" + gcetest.Project, "-var", "endpoint=" + l.endpoint, "-var", "host_key_checking=false", "-var", "min_ready=2",
		"-var", `machine_types=["e2-small"]`}, more...)
}

func TestExampleIsAppliedDriftedAndDestroyed(t *testing.T) {
	l := newLab(t, testutil.ReadFile(t, "../../examples/gce.hcl"))
	stay := l.foreign()
	l.Args = l.exampleArgs()
	l.MustContain(l.Run(2, "plan", "-detailed-exitcode"), "Plan: 0 to build, 0 to upload, 2 to launch, 0 to delete.")
	l.mustHave(0)
	l.MustContain(l.Run(0, "apply", "-auto-approve"), "Apply complete: 0 built, 0 uploaded, 2 launched, 0 deleted.")
	l.mustHave(2)
	l.MustContain(l.Run(0, "plan", "-detailed-exitcode"), "No changes.")

	t.Log("an instance goes behind npctl's back")
	gone := l.instances()[0]
	l.deleteInstance(gone.Name, base(gone.Zone))
	l.mustHave(1)
	l.MustContain(l.Run(2, "plan", "-detailed-exitcode"), "1 to launch")
	l.Run(0, "apply", "-auto-approve")
	l.mustHave(2)

	t.Log("a replacing attribute changes")
	l.Args = l.exampleArgs("-var", `machine_types=["e2-medium"]`)
	l.MustContain(l.Run(2, "plan", "-detailed-exitcode"), "machine_types")
	l.Run(0, "apply", "-auto-approve")
	l.Run(0, "apply", "-auto-approve")
	l.mustHave(2)
	for _, i := range l.instances() {
		if base(i.MachineType) != "e2-medium" {
			t.Errorf("instance %s is a %s after the change", i.Name, base(i.MachineType))
		}
	}

	l.Run(0, "destroy", "-auto-approve")
	l.mustHave(0)
	l.MustContain(l.Run(0, "destroy", "-auto-approve"), "No changes.")
	stay()
}

func TestUnknownNamesAreProblemsOfThePlan(t *testing.T) {
	l := newLab(t, testutil.ReadFile(t, "../../examples/gce.hcl"))
	l.Args = l.exampleArgs("-var", "network=defaul", "-var", `zones=["europe-west1-a"]`, "-var", "image_family=debian-1")
	l.MustContain(l.Run(1, "plan"), "default", "europe-west1-b", "debian-12", "npctl.hcl")
	l.Args = l.exampleArgs("-var", "region=europe-west2")
	l.MustContain(l.Run(1, "plan"), "europe-west1")
}
