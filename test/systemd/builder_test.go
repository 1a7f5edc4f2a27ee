//go:build integration

package systemd

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

// cloud is a provider that both services use.
const cloud = `
provider "openstack" "one" {
  cloud        = "emulator"
  image_format = "raw"
`

const asking = settings + `
diskimage "debian" {
  builder "gearman" {}
  formats = ["raw"]
}

label "small" { min_ready = 1 }
` + cloud + `
  pool "main" {
    networks          = ["private"]
    host_key_checking = false
    label "small" {
      image  = diskimage.debian
      flavor = "small"
    }
  }
}
`

const building = `
npctl {
  images_dir    = "/var/lib/npctl-builder/images"
  build_log_dir = "/var/lib/npctl-builder/build-logs"

  gearman {
    servers = ["127.0.0.1"]
  }

  state "bolt" {
    path = "/var/lib/npctl-builder/npctl.db"
  }
}

diskimage "debian" {
  builder "exec" {
    command = ["sh", "-c", "test $(id -u) = 0 && printf image >\"$NPCTL_OUTPUT.raw\""]
    formats = ["raw"]
  }
}
` + cloud + "}\n"

// installEmulator builds the OpenStack of the machine.
func (m *machine) installEmulator() {
	m.t.Helper()
	cmd := exec.CommandContext(m.t.Context(), "go", "build", "-o", fmt.Sprintf("/proc/%d/root/usr/local/bin/emulator", m.pid), "../emulator")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		m.t.Fatalf("go build: %v\n%s", err, out)
	}
}

func TestBuilderServiceBuildsForWatchService(t *testing.T) {
	t.Parallel()
	m := boot(t)
	m.run("install -m 755 bin/npctl /usr/bin/npctl && systemctl start gearman-job-server")
	m.installEmulator()
	m.run("mkdir -p /etc/openstack && systemd-run --unit=cloud /usr/local/bin/emulator -write-clouds=/etc/openstack/clouds.yaml")
	testutil.Await(m.t, "the cloud exists", func() bool { return m.run("ls /etc/openstack") == "clouds.yaml" })
	m.run("chmod 644 /etc/openstack/clouds.yaml") // both services read it
	m.write("/etc/npctl-builder/npctl.hcl", building)
	m.run("install -m 644 packaging/systemd/npctl-builder.service /etc/systemd/system/ && systemctl enable --now npctl-builder")
	testutil.Await(m.t, "the build host offers its image", func() bool { return strings.Contains(m.run("gearadmin --status"), "image-build:debian") })
	m.install(strings.Replace(asking, "npctl {", "npctl {\n  gearman {\n    servers = [\"127.0.0.1\"]\n  }\n", 1))
	m.ready()
	m.write("/etc/npctl-builder/npctl.hcl", strings.Replace(building, `diskimage "debian"`, `diskimage "trixie"`, 1))
	m.run("systemctl reload npctl-builder")
	testutil.Await(m.t, "the build host offers the image of its new configuration", func() bool {
		status := m.run("gearadmin --status")
		return strings.Contains(status, "image-build:trixie") && m.is("npctl-builder", "NRestarts") == "0"
	})
	m.run("systemctl stop npctl-builder")
	if result := m.is("npctl-builder", "Result"); result != "success" {
		t.Errorf("the build host that was stopped ended with %s", result)
	}
}
