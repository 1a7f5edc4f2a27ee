//go:build integration

package integration

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// settings is the npctl block of most tests. The second apply that sees a leak deletes it.
const settings = `
npctl {
  images_dir = "images"
  leak_age   = "1s"
  state "bolt" { path = "npctl.db" }
}
`

// everyAttribute has an offer for each way to create a server.
const everyAttribute = settings + `
label "dressed" { min_ready = 1 }
label "volume"  { min_ready = 1 }
label "six"     { min_ready = 1 }
label "zoned"   { min_ready = 2 }

provider "openstack" "acme" {
  cloud = "appcred"
  cloud_image "tiny"   { image_name = "tiny" }
  cloud_image "newest" { filters = { name = "vendor-noble-*" } }
  cloud_image "stable" { filters = { os_distro = "ubuntu", os_version = "24.04", tag = "current" } }
  cloud_image "byid"   { image_id = "TINY" }

  pool "main" {
    host_key_checking = false
    label "dressed" {
      image               = cloud_image.newest
      flavor              = "small"
      networks            = ["private", "shared"]
      interface_network   = "shared"
      security_groups     = ["ssh", "default"]
      key_name            = "lab"
      userdata            = "#cloud-config\nhostname: x\n"
      config_drive        = true
      instance_properties = { purpose = "test" }
      tags                = ["first"]
    }
    label "volume" {
      image            = cloud_image.byid
      min_ram          = 3000
      networks         = ["private"]
      boot_from_volume = true
      volume_size      = 21
      volume_type      = "pretended"
      create_ports     = true
      auto_floating_ip = true
    }
    label "six" {
      image      = cloud_image.stable
      flavor     = "small"
      networks   = ["dual"]
      ip_version = 6
    }
    label "zoned" {
      image              = cloud_image.tiny
      flavor             = "small"
      networks           = ["private"]
      availability_zones = ["az2"]
    }
  }
}
`

// TestOpenStackServersAreAsConfigured checks servers as Nova shows them.
func TestOpenStackServersAreAsConfigured(t *testing.T) {
	t.Parallel()
	p := newProject(t).createUsualObjects()
	p.dualNetwork()
	p.applicationCredential()
	before := p.things()
	tiny := text(p.find(t, image, "images?name=tiny", "images", "tiny")["id"])
	at := p.newPlace(strings.Replace(everyAttribute, "TINY", tiny, 1))
	at.mustRun(0, "apply", "-auto-approve").endsWith("Apply complete: 0 built, 0 uploaded, 5 launched, 0 deleted.")
	p.mustHave(before, map[string]int{"server": 5, "floating IP": 1, "volume": 1})
	at.nothingToDo()

	servers := map[string][]object{}
	for _, s := range p.nodes() {
		label := s["metadata"].(object)["npctl_label"].(string)
		servers[label] = append(servers[label], s)
	}
	p.checkServerAttributes(servers["dressed"][0], at)
	p.fromVolume(servers["volume"][0], without(p.things(), before))
	p.six(servers["six"][0], at)
	for _, s := range servers["zoned"] {
		if s["OS-EXT-AZ:availability_zone"] != "az2" {
			t.Errorf("server is in zone %v, want az2", s["OS-EXT-AZ:availability_zone"])
		}
	}
	at.mustRun(0, "destroy", "-auto-approve")
	p.mustBe(before)
}

func (p *project) checkServerAttributes(s object, at *place) {
	p.t.Helper()
	var groups []string
	for _, g := range s["security_groups"].([]any) {
		groups = append(groups, g.(object)["name"].(string))
	}
	data, _ := base64.StdEncoding.DecodeString(text(s["OS-EXT-SRV-ATTR:user_data"]))
	got := object{"key": s["key_name"], "drive": s["config_drive"], "tags": s["tags"], "purpose": s["metadata"].(object)["purpose"],
		"image": p.imageName(s), "groups on both networks": onNetworks(groups), "networks": len(s["addresses"].(object))}
	want := object{"key": "lab", "drive": "True", "tags": []any{"first", "npctl"}, "purpose": "test",
		"image": "vendor-noble-20260202", "groups on both networks": "default 2, ssh 2", "networks": 2}
	if diff := cmp.Diff(want, got); diff != "" {
		p.t.Errorf("server of label dressed (-want +got):\n%s", diff)
	}
	if shown := text(s["OS-EXT-SRV-ATTR:user_data"]); shown != "" && !strings.HasPrefix(string(data), "#cloud-config\n") {
		p.t.Errorf("user data is %q", data)
	}
	at.mustRun(0, "state", "show", "node."+nodeOf(s)).contains("127.79.")
}

func onNetworks(groups []string) string {
	n := map[string]int{}
	for _, g := range groups {
		n[g]++
	}
	return fmt.Sprintf("default %d, ssh %d", n["default"], n["ssh"])
}

func nodeOf(s object) string { return s["metadata"].(object)["npctl_node_id"].(string) }

func (p *project) imageName(s object) string {
	p.t.Helper()
	return text(p.do(p.t, "GET", image, "images/"+s["image"].(object)["id"].(string), nil)["name"])
}

func (p *project) fromVolume(s object, things map[string]thing) {
	p.t.Helper()
	if s["image"] != "" || s["flavor"].(object)["original_name"] != "medium" {
		p.t.Errorf("server of label volume has image %v and flavor %v, want none and medium", s["image"], s["flavor"])
	}
	v := of(things, "volume")[0].object
	if text(v["size"]) != "21" || v["volume_type"] != "pretended" || v["bootable"] != "true" {
		p.t.Errorf("its volume is %v", v)
	}
	for _, port := range of(things, "port") {
		if port.object["device_id"] == s["id"] && !strings.HasPrefix(text(port.object["description"]), "npctl:") {
			p.t.Errorf("its port carries no marks: %v", port.object)
		}
	}
}

func (p *project) six(s object, at *place) {
	p.t.Helper()
	if got := p.imageName(s); got != "vendor-noble-20260201" {
		p.t.Errorf("server of label six has image %s, want the one tagged current", got)
	}
	versions := map[string]bool{}
	six := ""
	for _, a := range s["addresses"].(object)["dual"].([]any) {
		versions[text(a.(object)["version"])] = true
		if ip := netip.MustParseAddr(a.(object)["addr"].(string)); ip.Is6() {
			six = ip.String()
		}
	}
	if !versions["4"] || !versions["6"] {
		p.t.Errorf("addresses are %v, want IPv4 and IPv6", s["addresses"])
	}
	at.mustRun(0, "state", "show", "node."+nodeOf(s)).contains(six)
}
