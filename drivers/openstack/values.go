package openstack

import (
	"github.com/zclconf/go-cty/cty"
)

// attr returns an attribute, or null if the value lacks it: callers may pass less than the whole schema.
func attr(v cty.Value, name string) cty.Value {
	if v == cty.NilVal || v.IsNull() || !v.IsKnown() || !v.Type().IsObjectType() || !v.Type().HasAttribute(name) {
		return cty.NullVal(cty.DynamicPseudoType)
	}
	a, _ := v.GetAttr(name).UnmarkDeep()
	return a
}

func stringAttr(v cty.Value, name string) string {
	a := attr(v, name)
	if a.IsNull() || a.Type() != cty.String {
		return ""
	}
	return a.AsString()
}

func boolAttr(v cty.Value, name string) bool {
	a := attr(v, name)
	return !a.IsNull() && a.Type() == cty.Bool && a.True()
}

func optionalBool(v cty.Value, name string) *bool {
	a := attr(v, name)
	if a.IsNull() || a.Type() != cty.Bool {
		return nil
	}
	b := a.True()
	return &b
}

func intAttr(v cty.Value, name string) int64 {
	a := attr(v, name)
	if a.IsNull() || a.Type() != cty.Number {
		return 0
	}
	n, _ := a.AsBigFloat().Int64()
	return n
}

func listAttr(v cty.Value, name string) []string {
	a := attr(v, name)
	if a.IsNull() || !a.CanIterateElements() {
		return nil
	}
	var list []string
	for _, e := range a.AsValueSlice() {
		if !e.IsNull() {
			list = append(list, e.AsString())
		}
	}
	return list
}

func mapAttr(v cty.Value, name string) map[string]string {
	a := attr(v, name)
	if a.IsNull() || !a.CanIterateElements() {
		return nil
	}
	m := map[string]string{}
	for k, e := range a.AsValueMap() {
		if !e.IsNull() {
			m[k] = e.AsString()
		}
	}
	return m
}
