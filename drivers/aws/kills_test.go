//go:build integration

package aws

import (
	"net/http"
	"slices"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/aws/awstest"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/internal/testutil"
)

// objectsOf returns the objects with ownership tags of npctl. moto has hundreds of others.
func objectsOf(t *testing.T) (all []string) {
	t.Helper()
	owned, err := awstest.Owned(t.Context(), sdk(t))
	testutil.Must(t, err)
	for kind, ids := range owned {
		for _, id := range ids {
			all = append(all, kind+" "+id)
		}
	}
	slices.Sort(all)
	return all
}

// killSetup is a project for clients that are killed, in an empty moto.
func killSetup(t *testing.T, offer map[string]cty.Value) drivertest.Setup {
	t.Helper()
	resetMoto(t)
	s := motoSetup(t, offerConfig(offer))
	w := &wire{}
	open := func(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) drivers.Cloud {
		t.Helper()
		c, err := openBy(t.Context(), wrap, map[string]cty.Value{})
		testutil.Must(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	s.Cloud = open(t, w.wrap)
	s.Reopen = nil // each new client reads the lists of names, which takes moto seconds
	s.Kill = func(t *testing.T, k *testutil.Killer) drivers.Cloud {
		return open(t, func(next http.RoundTripper) http.RoundTripper { return k.Transport(w.wrap(next), awstest.ChangeOf) })
	}
	s.Objects, s.Neighbours, s.Omits = objectsOf, neighbours, nil
	return s
}

// Kills of fleets and imports are in test/clouds.
func TestMotoContractOfKills(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Setup { return killSetup(t, nil) }, "Kills", "ImageKills", "Foreign")
}

func TestMotoContractOfKillsOfDedicatedHosts(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Setup {
		return killSetup(t, map[string]cty.Value{"dedicated_host": cty.True, "availability_zones": words(motoZone)})
	}, "Kills", "Foreign")
}
