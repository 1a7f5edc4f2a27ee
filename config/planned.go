package config

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources/schema"
)

// plannedValues returns, as JSON text, the attributes of a body that affect nodes and images and differ from their
// defaults. It omits nested blocks.
func plannedValues(b schema.Block, v values) map[string]string {
	planned := map[string]string{}
	for i := range b.Attributes {
		attr := &b.Attributes[i]
		value, known := v[attr.Name]
		if !known || attr.Class == schema.InPlace || value.IsNull() {
			continue
		}
		if plain, _ := value.UnmarkDeep(); attr.Default == cty.NilVal || !plain.RawEquals(attr.Default) {
			planned[attr.Name] = plannedValue(attr, value)
		}
	}
	return planned
}

func plannedValue(attr *schema.Attribute, value cty.Value) string {
	if attr.Hashed && !attr.Sensitive && !value.IsMarked() && value.IsKnown() {
		sum := sha256.Sum256([]byte(value.AsString()))
		value = cty.StringVal("sha256:" + hex.EncodeToString(sum[:]))
	}
	return showValue(value, attr.Sensitive)
}
