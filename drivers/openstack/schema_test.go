package openstack

import (
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers/drivertest"
)

func TestValuesThatNovaRejectsAreConfigurationErrors(t *testing.T) {
	list := func(s string) cty.Value { return cty.ListVal([]cty.Value{cty.StringVal(s)}) }
	property := func(k, v string) cty.Value { return cty.MapVal(map[string]cty.Value{k: cty.StringVal(v)}) }
	for _, test := range []struct {
		attribute string
		value     cty.Value
		ok        bool
	}{
		{"ip_version", cty.NumberIntVal(6), true}, {"ip_version", cty.NumberIntVal(5), false},
		{"userdata", cty.StringVal(strings.Repeat("x", 49149)), true}, {"userdata", cty.StringVal(strings.Repeat("x", 49152)), false},
		{"tags", list("ci"), true}, {"tags", list("a,b"), false}, {"tags", list(strings.Repeat("x", 61)), false},
		{"instance_properties", property("a", "b"), true}, {"instance_properties", property("a", strings.Repeat("x", 256)), false},
		{"request_properties", property("a", "for {request.tenant_name}"), true}, {"request_properties", property("a", "{request.tenant}"), false},
		{"request_properties", property("npctl_pool", "{request.id}"), false},
		{"instance_properties", property("npctl_pool", "b"), false}, {"instance_properties", property(strings.Repeat("x", 256), "b"), false},
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

func TestSchemaFulfilsTheContract(t *testing.T) {
	drivertest.Schema(t, New().Schema())
	if _, found := SharedSchema().Provider.Lookup("cloud"); found {
		t.Error("the shared schema asks where the cloud is")
	}
}
