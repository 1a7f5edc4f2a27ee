package doctest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const openstackAround = `
label "debian" { min_ready = 1 }
provider "openstack" "cloud" {
  cloud = "mycloud"
  cloud_image "debian" {}
  %s
}`

// contexts are the surroundings of incomplete configurations, by info string.
var contexts = map[string]string{
	"complete": `%s`,
	"": `variable "admin_password" {
  default   = ""
  sensitive = true
}
%s`,
	"openstack pool": fmt.Sprintf(openstackAround, `pool "main" {
  label "debian" {
    image   = cloud_image.debian
    min_ram = 1024
  }
%s
}`),
	"openstack label": fmt.Sprintf(openstackAround, `pool "main" {
  label "debian" {
%s
  }
}`),
	"aws label": `label "debian" {}
provider "aws" "frankfurt" {
  cloud_image "debian" { image_id = "ami-0123456789abcdef0" }
  pool "main" {
    label "debian" {
      image = cloud_image.debian
%s
    }
  }
}`,
	"aws provider": `label "debian" {}
diskimage "debian" {
  builder "exec" {
    command = ["true"]
    formats = ["vmdk"]
  }
}
provider "aws" "frankfurt" {
  pool "main" {
    label "debian" {
      image          = diskimage.debian
      instance_types = ["m7i.large"]
    }
  }
%s
}`,
	"static pool": `label "board" {}
provider "static" "lab" {
  pool "main" {
%s
  }
}`,
	"moved": `label "debian-small" {}
provider "sandbox" "vexxhost-ca" {
  cloud_image "debian" {}
  pool "main" {
    label "debian-small" {
      image  = cloud_image.debian
      flavor = "small"
    }
  }
}
%s`,
	"sandbox provider": `label "debian" {}
provider "sandbox" "play" {
  cloud_image "debian" {}
  pool "main" {
    label "debian" {
      image  = cloud_image.debian
      flavor = "small"
    }
  }
%s
}`,
}

func TestConfigurationsAreValid(t *testing.T) {
	checked := 0
	for _, page := range pages(t) {
		blocks, _ := fences(t, page)
		for _, b := range blocks {
			if b.kind != "hcl" || b.file != "" { // sessions use the files
				continue
			}
			checked++
			if b.info == "test" {
				runTests(t, b)
				continue
			}
			around, known := contexts[b.info]
			if !known {
				t.Errorf("%s: %q is none of the contexts of this test", b, b.info)
				continue
			}
			validate(t, b, fmt.Sprintf(around, strings.Join(b.code, "\n")))
		}
	}
	if checked < 10 {
		t.Errorf("only %d configurations found", checked)
	}
}

// tested is the configuration that files with tests in pages refer to.
const tested = `
variable "region" {}

variable "size" {
  default = 1

  validation {
    condition     = var.size < 100
    error_message = "Too many."
  }
}

label "small" {
  min_ready = var.size
}

provider "sandbox" "acme" {
  pool "main" {
    networks = ["private"]

    label "small" {
      image  = cloud_image.debian
      flavor = "small"
    }
  }

  cloud_image "debian" {}
}
`

// runTests runs the tests in a page.
func runTests(t *testing.T, b fence) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"npctl.hcl": tested, "page.test.hcl": strings.Join(b.code, "\n") + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), npctl, "-no-color", "test", "-config="+dir).CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", b, err, out)
	}
}

func validate(t *testing.T, b fence, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "npctl.hcl")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), npctl, "-no-color", "validate", "-config="+file)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", b, err, out)
	}
	if b.info != "complete" {
		return
	}
	if out, err := exec.CommandContext(t.Context(), npctl, "-no-color", "fmt", "-diff", "-check", file).CombinedOutput(); err != nil {
		t.Errorf("%s: not in the canonical layout: %v\n%s", b, err, out)
	}
}
