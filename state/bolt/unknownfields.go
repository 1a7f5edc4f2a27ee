package bolt

import (
	"encoding/json"
	"reflect"
	"strings"
)

// preserveUnknownFields returns next with the fields of old that the Go type of record does not have. A newer npctl of
// the same schema wrote them, and an older one must preserve them. It descends into objects, but not into lists or
// maps.
func preserveUnknownFields(old, next []byte, record any) ([]byte, error) {
	if len(old) == 0 {
		return next, nil
	}
	return merge(old, next, reflect.TypeOf(record).Elem())
}

func merge(old, next []byte, t reflect.Type) ([]byte, error) {
	var before map[string]json.RawMessage
	if err := json.Unmarshal(old, &before); err != nil {
		return nil, damage("the stored record: %v", err)
	}
	known := fields(t)
	var after map[string]json.RawMessage
	for name, value := range before {
		inner, ok := known[name]
		if ok && inner == nil {
			continue
		}
		if after == nil {
			if err := json.Unmarshal(next, &after); err != nil {
				return nil, err
			}
		}
		var err error
		switch {
		case !ok:
			after[name] = value
		case after[name] != nil:
			if after[name], err = merge(value, after[name], inner); err != nil {
				return nil, err
			}
		}
	}
	if after == nil {
		return next, nil
	}
	return json.Marshal(after)
}

// fields returns the JSON names of a struct's fields. The type of a field is nil unless it is a struct with JSON
// fields.
func fields(t reflect.Type) map[string]reflect.Type {
	names := make(map[string]reflect.Type, t.NumField())
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		names[name] = nil
		if field.Type.Kind() == reflect.Struct && len(fields(field.Type)) > 0 { // time.Time has no fields
			names[name] = field.Type
		}
	}
	return names
}
