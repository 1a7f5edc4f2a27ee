package resources_test

import (
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources"
)

// TestHashesStayTheSame: another hash would replace every node and image at an upgrade.
func TestHashesStayTheSame(t *testing.T) {
	value := cty.ObjectVal(map[string]cty.Value{
		"image": cty.StringVal("tiny"), "none": cty.NullVal(cty.String),
		"label": cty.ObjectVal(map[string]cty.Value{"flavor": cty.StringVal("small"), "userdata": cty.StringVal("geheim").Mark("sensitive"), "volume": cty.NumberIntVal(80)}),
	})
	if got := resources.HashValue(value); !got.Match("v1:5f1d715fc0fbe8740055b95b2db24a8d") {
		t.Errorf("hashes are %s", got)
	}
}
