package gce

import (
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers/drivertest"
)

func TestSchemaFulfilsTheContract(t *testing.T) { drivertest.Schema(t, New().Schema()) }

func TestValuesThatGoogleRejectsAreConfigurationErrors(t *testing.T) {
	pair := func(k, v string) cty.Value { return cty.MapVal(map[string]cty.Value{k: cty.StringVal(v)}) }
	for _, test := range []struct {
		attribute string
		value     cty.Value
		ok        bool
	}{
		{"machine_types", words("e2-small"), true}, {"machine_types", cty.ListValEmpty(cty.String), false},
		{"userdata", cty.StringVal(strings.Repeat("x", 262144)), true}, {"userdata", cty.StringVal(strings.Repeat("x", 262145)), false},
		{"labels", pair("a", "b"), true}, {"labels", pair("A", "b"), false}, {"labels", pair("a", "B"), false}, {"labels", pair("npctl_pool", "b"), false},
		{"labels", pair("goog-x", "b"), false}, {"labels", pair("a", strings.Repeat("x", 64)), false},
		{"metadata", pair("startup-script", "x"), true}, {"metadata", pair("user-data", "x"), false}, {"metadata", pair("a b", "x"), false},
		{"ssh_keys", words("zuul:ssh-ed25519 AAAA"), true}, {"ssh_keys", words("ssh-ed25519 AAAA"), false}, {"ssh_keys", words("a:b c\nd:e f"), false},
		{"request_properties", pair("a", "{request.id}"), true}, {"request_properties", pair("a", "{request.tenant}"), false}, {"request_properties", pair("A", "x"), false},
	} {
		a, found := New().Schema().Label.Lookup(test.attribute)
		if !found || a.Check == nil {
			t.Fatalf("label has no checked attribute %s", test.attribute)
		}
		if err := a.Check(test.value); (err == nil) != test.ok {
			t.Errorf("%s = %.40v…: %v, want ok = %t", test.attribute, test.value.GoString(), err, test.ok)
		}
	}
}
