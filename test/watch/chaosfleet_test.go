//go:build integration

package watch

import (
	"fmt"
	"testing"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
)

// The values in chaosClouds and chaosFleet.
const chaosTenantLimit = 4

var (
	chaosPools = map[string]int{"one/main": 8, "two/spare": 3}
	chaosQuota = map[string]map[string]int{"one": {"server": 11}, "two": {"server": 12, "floating_ip": 8, "volume": 5}}
)

// chaosClouds serves two clouds with a small quota each.
func chaosClouds(t *testing.T, seed uint64) (one, two *project) {
	t.Helper()
	first, second := emulator.DefaultQuota(), emulator.DefaultQuota()
	first.Instances, first.Cores = 11, 40
	second.Instances, second.FloatingIPs, second.Volumes = 12, 8, 5
	return newProject(t, "one", emulator.Options{BuildTime: 300 * time.Millisecond, DeleteTime: 200 * time.Millisecond, Quota: &first, Seed: seed}),
		newProject(t, "two", emulator.Options{BuildTime: 400 * time.Millisecond, DeleteTime: 200 * time.Millisecond, AddressTime: 100 * time.Millisecond,
			Quota: &second, Seed: seed, Range: 1})
}

// chaosFleet uses the clouds, the first one with SSH, and a static machine.
func chaosFleet(port int) string {
	return fmt.Sprintf(`
npctl {
  images_dir = "images"
  leak_age   = "3s"
  leak_limit = 50
  tenant_limit "limited" { max_servers = 4 }
}

diskimage "debian" {
  builder "exec" {
    command = ["sh", "-c", "printf image >\"$NPCTL_OUTPUT.raw\""]
    formats = ["raw"]
  }
  rebuild_age     = "10s"
  validate {
    attempts = 1000 # the faults of the clouds are no fault of the image
  }
  rollout {
    stage {
      share     = 50
      successes = 3
    }
  }
  keep            = 1
  connection_port = %[1]d
}

label "small" { min_ready = 1 }
label "large" {}
label "volume" {}
label "nothing" {}
label "metal" {}

provider "openstack" "one" {
  cloud          = "one"
  image_format   = "raw"
  rate           = 0
  api_timeout    = "2s"
  launch_timeout = "12s"
  boot_timeout   = "6s"
  pool "main" {
    networks          = ["private"]
    host_key_checking = true
    max_servers       = 8
    label "small" {
      image  = diskimage.debian
      flavor = "small"
    }
    label "large" {
      image  = diskimage.debian
      flavor = "large"
    }
  }
}

provider "openstack" "two" {
  cloud          = "two"
  image_format   = "raw"
  rate           = 0
  api_timeout    = "2s"
  launch_timeout = "12s"
  pool "main" {
    networks          = ["private"]
    host_key_checking = false
    auto_floating_ip  = true
    create_ports      = true
    label "small" {
      image  = diskimage.debian
      flavor = "small"
    }
    label "volume" {
      image            = diskimage.debian
      flavor           = "small"
      boot_from_volume = true
      volume_size      = 1
    }
  }
  pool "spare" {
    networks          = ["private"]
    host_key_checking = false
    max_servers       = 3
    label "small" {
      image  = diskimage.debian
      flavor = "small"
    }
  }
}

provider "static" "rack" {
  pool "main" {
    node "metal1" {
      labels            = ["metal"]
      host_key_checking = false
      slots             = 3
    }
  }
}
`, port)
}

// chaosFaults returns all faults that the emulator supports. Uploads begin to fail with the third image, so that one
// image exists.
func chaosFaults() []emulator.Fault {
	faults := []emulator.Fault{
		{Operation: "*.list", Action: emulator.Answer, Status: 503, Probability: 0.01}, // one listing of a cloud makes a dozen of these calls
		{Operation: "*.list", Action: emulator.LostBefore, Probability: 0.01},
		{Operation: "*.list", Action: emulator.HangBefore, Probability: 0.002},
		{Operation: "server.list", Action: emulator.LateListing, Delay: time.Second},
		{Operation: "server.list", Action: emulator.Truncate},
		{Operation: "server.create", Action: emulator.Answer, Status: 429, RetryAfter: time.Second},
		{Operation: "server.create", Action: emulator.Answer, Status: 500},
		{Operation: "server.create", Action: emulator.ServerError, Message: "No valid host was found. "},
		{Operation: "server.create", Action: emulator.OverQuota},
		{Operation: "server.create", Action: emulator.LostBefore},
		{Operation: "server.create", Action: emulator.LostAfter},
		{Operation: "server.create", Action: emulator.Truncate},
		{Operation: "server.create", Action: emulator.HangAfter},
		{Operation: "server.create", Action: emulator.LateEffect, Delay: 3 * time.Second},
		{Operation: "server.create", Action: emulator.LateListing, Delay: 2 * time.Second},
		{Operation: "server.delete", Action: emulator.DeleteFails},
		{Operation: "server.delete", Action: emulator.LostAfter},
		{Operation: "server.delete", Action: emulator.LateEffect, Delay: 2 * time.Second},
		{Operation: "server.delete", Action: emulator.Answer, Status: 500},
		{Operation: "server.delete", Action: emulator.LateListing, Delay: 2 * time.Second},
		{Operation: "server.show", Action: emulator.Slow, Delay: 500 * time.Millisecond},
		{Operation: "floating_ip.create", Action: emulator.LostAfter},
		{Operation: "floating_ip.create", Action: emulator.OverQuota},
		{Operation: "floating_ip.update", Action: emulator.LateAddress, Delay: time.Second},
		{Operation: "floating_ip.delete", Action: emulator.Answer, Status: 500},
		{Operation: "port.create", Action: emulator.LostAfter},
		{Operation: "port.delete", Action: emulator.Answer, Status: 500},
		{Operation: "volume.create", Action: emulator.LostAfter},
		{Operation: "volume.delete", Action: emulator.Answer, Status: 500},
		{Operation: "image.create", Action: emulator.LostAfter, After: 2},
		{Operation: "image.upload", Action: emulator.CutUpload, After: 2},
		{Operation: "image.upload", Action: emulator.StuckSaving, After: 2},
		{Operation: "image.delete", Action: emulator.LostAfter},
		{Operation: "limits.show", Action: emulator.Slow, Delay: time.Second},
		{Operation: "server.ssh", Action: emulator.LostBefore},
		{Operation: "server.ssh", Action: emulator.Slow, Delay: 500 * time.Millisecond},
	}
	for i := range faults {
		if faults[i].Probability == 0 {
			faults[i].Probability = 0.03
		}
	}
	return faults
}
