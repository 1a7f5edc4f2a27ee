package schema

import (
	"fmt"
	"reflect"
	"time"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/gocty"
)

// Decode copies a block, a value of Block.Type, into the struct to which into points. A field with the tag
// `config:"name"` gets the attribute or nested block of that name:
//
//   - a string, number, bool, list or map of them: an attribute; an empty list or map is nil
//   - a time.Duration: an attribute with FormatDuration
//   - a struct: a block with Max 1 and without label
//   - a slice of structs: all other blocks, those with a label in the order of their labels
//   - a pointer to one of these: unchanged if the attribute or block is not set
//
// A field with the tag `config:",label"` gets the label of a nested block. The fields of a struct with the tag
// `config:",inline"` are part of the block. Decode removes marks. A field keeps its value if the attribute is null,
// unknown or missing.
func Decode(block cty.Value, into any) error {
	if block == cty.NilVal {
		return nil
	}
	if block, _ = block.Unmark(); block.IsNull() || !block.IsKnown() {
		return nil
	}
	return DecodeValues(block.AsValueMap(), into)
}

// DecodeValues is Decode for the attributes and nested blocks of a block by name.
func DecodeValues(values map[string]cty.Value, into any) error {
	return decodeStruct(values, "", reflect.ValueOf(into).Elem())
}

func decodeStruct(values map[string]cty.Value, label string, into reflect.Value) error {
	for i := range into.NumField() {
		tag := tagOf(into.Type().Field(i))
		var err error
		switch {
		case tag.has("label"):
			into.Field(i).SetString(label)
		case tag.has("inline"):
			err = decodeStruct(values, label, into.Field(i))
		case tag.name != "":
			err = decodeField(values[tag.name], into.Field(i))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", tag.name, err)
		}
	}
	return nil
}

func decodeField(value cty.Value, into reflect.Value) error {
	if value == cty.NilVal {
		return nil
	}
	if value, _ = value.UnmarkDeep(); value.IsNull() || !value.IsWhollyKnown() {
		return nil
	}
	switch kind := into.Kind(); {
	case into.Type() == reflect.TypeFor[time.Duration]() && value.Type() == cty.String:
		d, err := ParseDuration(value.AsString())
		into.SetInt(int64(d))
		return err
	case kind == reflect.Pointer:
		if into.IsNil() {
			into.Set(reflect.New(into.Type().Elem()))
		}
		return decodeField(value, into.Elem())
	case kind == reflect.Struct && value.Type().IsObjectType():
		return decodeStruct(value.AsValueMap(), "", into)
	case (kind == reflect.Slice || kind == reflect.Map) && value.CanIterateElements() && value.LengthInt() == 0:
		into.SetZero()
		return nil
	case kind == reflect.Slice && into.Type().Elem().Kind() == reflect.Struct && value.CanIterateElements():
		return decodeBlocks(value, into)
	default:
		return gocty.FromCtyValue(value, into.Addr().Interface())
	}
}

// decodeBlocks decodes a list of blocks, or a map of blocks by label.
func decodeBlocks(value cty.Value, into reflect.Value) error {
	into.SetZero()
	for it := value.ElementIterator(); it.Next(); {
		key, body := it.Element()
		label := ""
		if key.Type() == cty.String {
			label = key.AsString()
		}
		block := reflect.New(into.Type().Elem()).Elem()
		if err := decodeStruct(body.AsValueMap(), label, block); err != nil {
			return err
		}
		into.Set(reflect.Append(into, block))
	}
	return nil
}
