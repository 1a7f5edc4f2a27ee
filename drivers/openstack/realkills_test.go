//go:build integration

package openstack

import (
	"os"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers/drivertest"
)

func TestRealKills(t *testing.T) {
	attributes := map[string]cty.Value{
		"auto_floating_ip": cty.True, "create_ports": cty.True,
		"boot_from_volume": cty.True, "volume_size": cty.NumberIntVal(1), "flavor": cty.StringVal("small"),
	}
	setup := func(t *testing.T) drivertest.Setup {
		s := realSetup(t, os.Getenv("OS_CLOUD"), offerConfig(attributes))
		s.Foreign = nil
		return s
	}
	drivertest.Run(t, setup, "Kills", "ImageKills")
}
