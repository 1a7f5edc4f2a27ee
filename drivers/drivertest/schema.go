package drivertest

import (
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources/schema"
)

// Schema tests the schema of a driver.
func Schema(t *testing.T, s schema.Driver) {
	for block, b := range map[string]schema.Block{"provider": s.Provider, "pool": s.Pool, "label": s.Label, "image": s.Image, "node": s.Node} {
		seen := map[string]bool{}
		for _, a := range b.Attributes {
			if a.Doc == "" || seen[a.Name] {
				t.Errorf("%s attribute %s: documented %t, twice %t", block, a.Name, a.Doc != "", seen[a.Name])
			}
			if a.Default != cty.NilVal && !a.Default.Type().Equals(a.Type) {
				t.Errorf("%s attribute %s: default is a %s, want %s", block, a.Name, a.Default.Type().FriendlyName(), a.Type.FriendlyName())
			}
			seen[a.Name] = true
		}
	}
	for _, a := range s.Pool.Attributes {
		label, found := s.Label.Lookup(a.Name)
		if !found {
			t.Errorf("pool attribute %s never reaches Create: labels have no such attribute", a.Name)
		}
		if label.Default != cty.NilVal {
			t.Errorf("label attribute %s has a default, which hides the pool's value", a.Name)
		}
	}
	checkContract(t, "label", s.Label, schema.Of[drivers.Reach]("", nil))
	checkContract(t, "label", s.Label, schema.Of[drivers.RequestProperties]("", nil))
	checkContract(t, "provider", s.Provider, schema.Of[drivers.Format]("", nil))
}

// checkContract tests that attributes of the contract have the type that npctl reads.
func checkContract(t *testing.T, block string, b, contract schema.Block) {
	for _, want := range contract.Attributes {
		if a, found := b.Lookup(want.Name); found && !a.Type.Equals(want.Type) {
			t.Errorf("%s attribute %s is a %s, which the contract defines as %s", block, a.Name, a.Type.FriendlyName(), want.Type.FriendlyName())
		}
	}
}
