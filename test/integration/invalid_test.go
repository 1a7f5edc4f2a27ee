//go:build integration

package integration

import (
	"strings"
	"testing"
)

// small is a configuration with nodes that boot from an existing image of the cloud.
const small = settings + `
label "small" { min_ready = 2 }
provider "openstack" "acme" {
  cloud           = "mine"
  launch_attempts = 2
  cloud_image "tiny" { image_name = "tiny" }
  pool "main" {
    host_key_checking = false
    networks          = ["private"]
    security_groups   = ["ssh"]
    key_name          = "lab"
    label "small" {
      image            = cloud_image.tiny
      flavor           = "small"
      auto_floating_ip = false
    }
  }
}
`

// TestOpenStackInvalidConfigurationsAreReportedWithoutChanges makes one mistake at a time that only the cloud can detect.
func TestOpenStackInvalidConfigurationsAreReportedWithoutChanges(t *testing.T) {
	t.Parallel()
	p := newProject(t).createUsualObjects()
	before := p.things()
	at := p.newPlace(small)
	for _, c := range []struct {
		from, to string
		says     []string
	}{
		{`cloud           = "mine"`, `cloud = "mina"`, []string{`"mina"`, "mine"}},
		{`cloud           = "mine"`, `cloud = "wrong-password"`, []string{"rejects the credentials"}},
		{`flavor           = "small"`, `flavor = "smal"`, []string{`flavor = "smal"`, "did you mean small"}},
		{`networks          = ["private"]`, `networks = ["privat"]`, []string{"privat", "did you mean private"}},
		{`security_groups   = ["ssh"]`, `security_groups = ["shh"]`, []string{"shh", "did you mean ssh"}},
		{`key_name          = "lab"`, `key_name = "labs"`, []string{"labs", "did you mean lab"}},
		{`{ image_name = "tiny" }`, `{ image_name = "tinny" }`, []string{"tinny", "did you mean tiny"}},
		{`{ image_name = "tiny" }`, `{ image_name = "withdrawn" }`, []string{"withdrawn", "no active image has this name"}},
		{`{ image_name = "tiny" }`, `{ filters = { name = "vendor-nobel-*" } }`, []string{"vendor-nobel-*"}},
		{`{ image_name = "tiny" }`, `{ image_id = "00000000-0000-4000-8000-000000000000" }`, []string{"00000000-0000-4000-8000-000000000000"}},
		{`flavor           = "small"`, "flavor = \"small\"\n availability_zones = [\"az7\"]", []string{"az7", "az1"}},
		{`flavor           = "small"`, `min_ram = 99999999`, []string{"99999999"}},
		{`cloud           = "mine"`, "cloud = \"mine\"\n region = \"RegionTwo\"", []string{"RegionTwo", "RegionOne"}},
	} {
		at.write(small)
		at.change(c.from, c.to)
		for _, o := range []outcome{at.mustRun(1, "plan"), at.mustRun(1, "apply", "-auto-approve")} {
			o.contains(c.says...).omits("guessed", "panic", "goroutine ")
			if !strings.Contains(o.stdout, "npctl.hcl:") {
				t.Errorf("%s with %s names no line\n%s", o.command, c.to, o.text())
			}
		}
	}
	p.mustBe(before)
}

// TestOpenStackUnreachableCloudIsDeferred uses a responding cloud and a silent one. The first is served, and the second
// is not treated as empty.
func TestOpenStackUnreachableCloudIsDeferred(t *testing.T) {
	t.Parallel()
	p := newProject(t).createUsualObjects()
	before := p.things()
	silent := strings.ReplaceAll(strings.TrimPrefix(small, settings), "acme", "silent")
	silent = strings.Replace(silent, `label "small" { min_ready = 2 }`, "", 1)
	at := p.newPlace(small + silent)
	at.mustRun(0, "apply", "-auto-approve").contains("2 launched")
	at.mustRun(0, "state", "list", "-long").contains("silent/main", "acme/main")

	p.entries["gone"] = p.entries["unreachable"]
	p.writeClouds(at.dir)
	at.change(`provider "openstack" "silent" {
  cloud           = "mine"`, `provider "openstack" "silent" {
  cloud = "gone"`)
	at.change("min_ready = 2", "min_ready = 3")
	at.mustRun(0, "plan").contains("silent", "could not be listed", "connection refused").endsWith("Plan: 0 to build, 0 to upload, 1 to launch, 0 to delete; 1 provider could not be listed.")
	at.mustRun(1, "apply", "-auto-approve").contains("1 launched", "some steps were not planned", "silent")
	at.mustRun(1, "plan", "-detailed-exitcode").contains("whether there are changes is not known")
	p.mustHave(before, map[string]int{"server": 3})
	at.mustRun(1, "destroy", "-auto-approve").contains("silent")
	p.mustHave(before, map[string]int{"server": 1})

	at.change(`cloud = "gone"`, `cloud = "mine"`)
	at.mustRun(0, "destroy", "-auto-approve")
	p.mustBe(before)
}
