package schema

import (
	"reflect"
	"time"
)

// Values returns the fields of a struct with the tag `config` by the names of their attributes, see Decode: for views of
// the configuration. A duration is a number of seconds, a nil pointer is nil. It omits nested blocks.
func Values(block any) map[string]any {
	values := map[string]any{}
	addValues(reflect.ValueOf(block), values)
	return values
}

func addValues(v reflect.Value, values map[string]any) {
	for i := range v.NumField() {
		tag, field := tagOf(v.Type().Field(i)), v.Field(i)
		if field.Kind() == reflect.Pointer && !field.IsNil() {
			field = field.Elem()
		}
		switch {
		case tag.has("inline"):
			addValues(field, values)
		case tag.name == "" || field.Kind() == reflect.Struct:
		case field.Kind() == reflect.Pointer:
			values[tag.name] = nil
		case field.Type() == reflect.TypeFor[time.Duration]():
			values[tag.name] = time.Duration(field.Int()).Seconds()
		case field.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.Struct:
		default:
			values[tag.name] = field.Interface()
		}
	}
}
