package gcetest

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"

	"google.golang.org/api/compute/v1"
)

var (
	hasLabel    = regexp.MustCompile(`^labels\.([a-z0-9_-]+):\*$`)
	equalLabels = regexp.MustCompile(`^\(labels\.([a-z0-9_-]+) = "([a-z0-9_-]*)"\)\s*`)
)

// filter returns a predicate of labels: labels.KEY:* or (labels.KEY = "VALUE") (…).
func filter(text string) (func(labels map[string]string) bool, *fault) {
	if text == "" {
		return func(map[string]string) bool { return true }, nil
	}
	if key := hasLabel.FindStringSubmatch(text); key != nil {
		return func(labels map[string]string) bool { _, ok := labels[key[1]]; return ok }, nil
	}
	wanted := map[string]string{}
	for rest := text; rest != ""; {
		part := equalLabels.FindStringSubmatch(rest)
		if part == nil {
			return nil, &fault{400, "invalid", "Invalid value for field 'filter': '" + text + "'. Invalid list filter expression."}
		}
		wanted[part[1]] = part[2]
		rest = rest[len(part[0]):]
	}
	return func(labels map[string]string) bool {
		for key, value := range wanted {
			if found, ok := labels[key]; !ok || found != value {
				return false
			}
		}
		return true
	}, nil
}

// mask is a selection of fields such as items/*/instances(name,zone).
type mask map[string]mask

// parseMask parses fields up to the end or a closing parenthesis.
func parseMask(text string) (mask, string) {
	m := mask{}
	for text != "" && text[0] != ')' {
		text = strings.TrimPrefix(text, ",")
		text = parseField(m, text)
	}
	return m, strings.TrimPrefix(text, ")")
}

func parseField(m mask, text string) string {
	end := strings.IndexAny(text, ",/()")
	if end < 0 {
		end = len(text)
	}
	name, rest := text[:end], text[end:]
	if m[name] == nil {
		m[name] = mask{}
	}
	switch {
	case strings.HasPrefix(rest, "/"):
		return parseField(m[name], rest[1:])
	case strings.HasPrefix(rest, "("):
		inner, after := parseMask(rest[1:])
		for key, value := range inner {
			m[name][key] = value
		}
		return after
	default:
		return rest
	}
}

// types are the types of the objects in lists.
var types = map[string]reflect.Type{"instances": reflect.TypeFor[compute.Instance](), "disks": reflect.TypeFor[compute.Disk]()}

// masked returns an answer as JSON with the selected fields only.
func masked(answer any, fields string) ([]byte, *fault) {
	data, err := json.Marshal(answer)
	if err != nil {
		return nil, &fault{500, "internalError", err.Error()}
	}
	if fields == "" {
		return data, nil
	}
	m, _ := parseMask(fields)
	if name := unknown(m, reflect.TypeOf(answer)); name != "" {
		return nil, &fault{400, "invalidParameter", "Invalid field selection " + name}
	}
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return nil, &fault{500, "internalError", err.Error()}
	}
	if data, err = json.Marshal(m.apply(value)); err != nil {
		return nil, &fault{500, "internalError", err.Error()}
	}
	return data, nil
}

func (m mask) apply(value any) any {
	if len(m) == 0 {
		return value
	}
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = m.apply(v[i])
		}
		return v
	case map[string]any:
		selected := map[string]any{}
		for key, one := range v {
			if inner, ok := m[key]; ok {
				selected[key] = inner.apply(one)
			} else if inner, ok := m["*"]; ok {
				selected[key] = inner.apply(one)
			}
		}
		return selected
	default:
		return value
	}
}

// unknown returns a selected field that a type does not have. Lists are maps, of which the objects are checked.
func unknown(m mask, t reflect.Type) string {
	for t != nil && (t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice) {
		t = t.Elem()
	}
	for name, inner := range m {
		next := types[name]
		if t != nil && t.Kind() == reflect.Struct {
			field, ok := fieldOf(t, name)
			if !ok {
				return name
			}
			next = field
		}
		if bad := unknown(inner, next); bad != "" {
			return bad
		}
	}
	return ""
}

func fieldOf(t reflect.Type, name string) (reflect.Type, bool) {
	for i := range t.NumField() {
		if tag, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); tag == name {
			return t.Field(i).Type, true
		}
	}
	return nil, false
}
