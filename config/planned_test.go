package config

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

const plannedFleet = `
variable "secret" {
  default   = "x"
  sensitive = true
}
label "l" {}
diskimage "debian" {
  builder "dib" { elements = ["vm"] }
}
provider "acme" "p" {
  cloud = "x"
  pool "a" {
    zones = ["one"]
    label "l" {
      image     = diskimage.debian
      flavor    = "medium"
      min_ram   = 2048
      size      = "small"
      user_data = %s
    }
  }
}`

// plannedOffer loads plannedFleet with the given user data.
func plannedOffer(t *testing.T, driver schema.Driver, data string) (resources.Desired, map[string]string) {
	t.Helper()
	opts := write(t, map[string]string{"main.hcl": fmt.Sprintf(plannedFleet, data)})
	opts.Drivers = map[string]schema.Driver{"acme": driver}
	d := load(t, opts).Desired
	return d, d.Providers[0].Pools[0].Offers[0].Values
}

func TestPlannedValuesOmitDefaults(t *testing.T) {
	driver := acme()
	for i := range driver.Label.Attributes {
		driver.Label.Attributes[i].Hashed = driver.Label.Attributes[i].Name == "user_data"
	}
	_, values := plannedOffer(t, driver, `"#cloud-config"`)
	same(t, "offer", values, map[string]string{"flavor": `"medium"`, "min_ram": "2048",
		"user_data": fmt.Sprintf(`"sha256:%x"`, sha256.Sum256([]byte("#cloud-config")))})
}

func TestPlannedValuesMaskSensitiveAttributes(t *testing.T) {
	driver := acme()
	for i := range driver.Label.Attributes {
		driver.Label.Attributes[i].Sensitive = driver.Label.Attributes[i].Name == "user_data"
	}
	d, values := plannedOffer(t, driver, `var.secret`)
	same(t, "user data", values["user_data"], "(sensitive)")
	same(t, "user data for the driver", d.Providers[0].Pools[0].Offers[0].Config.GetAttr("user_data").AsString(), "x")
}
