package buildertest

import (
	"maps"

	"github.com/zclconf/go-cty/cty"
)

// With returns the value of a block with other attributes.
func With(block cty.Value, written map[string]cty.Value) cty.Value {
	values := block.AsValueMap()
	maps.Copy(values, written)
	return cty.ObjectVal(values)
}

// Words returns a list of strings.
func Words(list ...string) cty.Value {
	values := make([]cty.Value, len(list))
	for i, word := range list {
		values[i] = cty.StringVal(word)
	}
	return cty.ListVal(values)
}
