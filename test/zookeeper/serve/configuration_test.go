//go:build integration

package serve

import (
	"fmt"
	"strings"
)

// rack has two machines, of which one has two labels.
const rack = `
npctl {
  STATE
}
label "metal" {}
label "big" {}
provider "static" "rack" {
  pool "main" {
    node_attributes = { executor-zone = "zone-1" }
    node "metal1" {
      address           = "127.0.0.1"
      labels            = ["metal"]
      host_key_checking = false
    }
    node "metal2" {
      address           = "127.0.0.1"
      labels            = ["metal", "big"]
      host_key_checking = false
      username          = "root"
      connection_port   = 2222
    }
  }
}
`

// single has one machine and nothing else.
const single = `
npctl {
  STATE
}
label "metal" {}
` + machine

const machine = `
provider "static" "rack" {
  pool "main" {
    node "metal1" {
      address           = "127.0.0.1"
      labels            = ["metal"]
      host_key_checking = false
    }
  }
}
`

// cloud is a provider with additional lines of it and of its pool. Its label is small.
type cloud struct {
	settings, labels, provider, pool string
	openstack                        string // name of an emulated OpenStack in clouds.yaml; empty means the driver sandbox
	port                             int    // port at which servers answer SSH; 0 means no SSH check
	name                             string // name of the provider; one when empty
}

func (c cloud) String() string {
	return "npctl {\n  STATE\n  images_dir = \"images\"\n  leak_age = \"1s\"\n  " + c.settings + "\n}\n" + c.image() + c.block()
}

func (c cloud) image() string {
	port := ""
	if c.port != 0 {
		port = fmt.Sprintf("connection_port = %d", c.port)
	}
	labels := c.labels
	if labels == "" {
		labels = `label "small" {}`
	}
	return fmt.Sprintf(`
diskimage "debian" {
  builder "exec" {
    command = ["sh", "-c", "printf image >\"$NPCTL_OUTPUT.raw\""]
    formats = ["raw"]
  }
  %s
}
%s
label "large" {}
`, port, labels)
}

func (c cloud) block() string {
	name := c.name
	if name == "" {
		name = "one"
	}
	kind, provider := "sandbox", c.provider
	if c.openstack != "" {
		kind, provider = "openstack", fmt.Sprintf("cloud = %q\n%s", c.openstack, provider)
	} else {
		for _, attribute := range []struct{ name, line string }{{"build_time", `build_time = "200ms"`}, {"delete_time", `delete_time = "100ms"`}} {
			if !strings.Contains(provider, attribute.name) {
				provider += "\n  " + attribute.line
			}
		}
	}
	return fmt.Sprintf(`
provider %q %q {
  image_format = "raw"
  rate         = 0
  %s
  pool "main" {
    networks          = ["private"]
    host_key_checking = %t
    %s
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
`, kind, name, provider, c.port != 0, c.pool)
}
