package aws

import (
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers/drivertest"
)

func TestSchemaFulfilsTheContract(t *testing.T) { drivertest.Schema(t, New().Schema()) }

func TestValuesThatEC2RejectsAreConfigurationErrors(t *testing.T) {
	tag := func(k, v string) cty.Value { return cty.MapVal(map[string]cty.Value{k: cty.StringVal(v)}) }
	for _, test := range []struct {
		attribute string
		value     cty.Value
		ok        bool
	}{
		{"instance_types", cty.ListVal([]cty.Value{cty.StringVal("t3.small")}), true}, {"instance_types", cty.ListValEmpty(cty.String), false},
		{"userdata", cty.StringVal(strings.Repeat("x", 16384)), true}, {"userdata", cty.StringVal(strings.Repeat("x", 16385)), false},
		{"tags", tag("a", "b"), true}, {"tags", tag("Name", "b"), false}, {"tags", tag("npctl_pool", "b"), false}, {"tags", tag("AWS:x", "b"), false},
		{"tags", tag(strings.Repeat("x", 129), "b"), false}, {"tags", tag("a", strings.Repeat("x", 256)), false},
		{"request_properties", tag("a", "{request.id}"), true}, {"request_properties", tag("a", "{request.tenant}"), false},
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
