package config

import (
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/npctl/npctl/resources"
)

func TestDisruptionBlocks(t *testing.T) {
	d := source(t, `
variable "max" { default = 3 }

label "small" {
  min_ready = 10
  disruption {
    max       = "10%"
    reasons   = ["configuration", "age"]
    schedule  = "0 1 * * sat-sun"
    duration  = "4h"
    time_zone = "Europe/Berlin"
  }
  disruption { max = var.max }
}

provider "acme" "one" {
  cloud = "x"
  disruption { max = "5%" }
  pool "main" {
    dynamic "disruption" {
      for_each = [1, 2]
      content { max = disruption.value }
    }
    label "small" {
      image  = cloud_image.noble
      flavor = "small"
    }
  }
  cloud_image "noble" {}
}
`)
	same(t, "label", d.Labels[0].Disruptions, []resources.Disruption{
		{Max: "10%", Reasons: []string{"configuration", "age"}, Schedule: "0 1 * * sat-sun", Duration: 4 * time.Hour, TimeZone: "Europe/Berlin"},
		{Max: "3", TimeZone: "UTC"}})
	same(t, "provider", d.Providers[0].Disruptions, []resources.Disruption{{Max: "5%", TimeZone: "UTC"}})
	same(t, "pool", d.Providers[0].Pools[0].Disruptions, []resources.Disruption{{Max: "1", TimeZone: "UTC"}, {Max: "2", TimeZone: "UTC"}})
}
