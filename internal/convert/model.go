package convert

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// model maps paths to the values in effect. Paths use Nodepool's names, such as
//
//	provider "c".pool "main".label "small".flavor-name
//
// and values have one form on both sides: times in seconds, rates in calls per second, lists and maps as JSON, and
// "none" without a value. A value has one path: networks, security groups and
// zones of a pool are attributes of its labels, and abstract images exist only in their children.
//
// Nodepool's web server has no counterpart in a configuration of npctl and is not in a model, and neither are partial
// keys. A label of openstack whose diskimage is not in the provider is not in the model:
// Nodepool does not serve it. Each project of openshiftpods, which is a pool in Nodepool, is a provider, because it is one
// in npctl.
type model map[string]setting

// setting is one attribute in effect. Line is where it was set, or that of its block for a default.
type setting struct {
	Text string
	Line int
	Set  bool // the file has the value; else it is Nodepool's default

	attr   string // of npctl
	secret bool
}

const none = "none"

func (m model) put(path, key string, a schema.Attribute, v any, line int, set bool) {
	m[path+key] = setting{format(a, v), line, set, a.Name, a.Sensitive || a.Hashed || a.Name == "env"}
}

// under returns the prefix of the attributes of a named block.
func under(prefix, kind, name string) string { return fmt.Sprintf("%s%s %q.", prefix, kind, name) }

// keyOf returns the name of an attribute in a path: the key with the same name, else the last one, in the first table that has
// the attribute.
func keyOf(attr string, tables ...table) string {
	same := strings.ReplaceAll(attr, "_", "-")
	for _, tab := range tables {
		name := ""
		for _, k := range tab.rows {
			outer, _, _ := strings.Cut(k.Key, ".")
			switch {
			case k.attr != attr:
			case outer == same:
				return outer
			case tab.known[attr].Type.IsMapType():
				name = outer
			default:
				name = k.Key
			}
		}
		if name != "" {
			return name
		}
	}
	return attr
}

// rowOf returns the first row of an attribute that holds the predicate, or the zero value.
func rowOf(attr string, is func(row) bool, tables ...table) row {
	for _, tab := range tables {
		for _, k := range tab.rows {
			if k.attr == attr && is(k) {
				return k
			}
		}
	}
	return row{}
}

// attributeIn returns the schema of an attribute of the tables.
func attributeIn(tables []table, attr string) schema.Attribute {
	for _, tab := range tables {
		if a, ok := tab.known[attr]; ok {
			return a
		}
	}
	return schema.Attribute{Name: attr, Type: cty.String}
}

// compared returns the attributes of the tables that a model has.
func compared(tables ...table) []string {
	var names []string
	for _, tab := range tables {
		for _, name := range tab.names {
			if !slices.Contains(names, name) && !rowOf(name, func(row) bool { return true }, tab).Partial {
				names = append(names, name)
			}
		}
	}
	return names
}

// valueOf returns the value that Nodepool reads for an attribute. Its type is nil, string, bool, float64, []string,
// map[string]string or map[string][]string.
func valueOf(a schema.Attribute, k schema.NodepoolKey, n *node) any {
	switch {
	case k.Form == schema.AsJSON:
		return asJSON(n.document())
	case k.Form == schema.AsInverse:
		seconds, ok := n.number()
		switch {
		case !ok:
			return notNumber(n)
		case seconds <= 0: // without limit on both sides
			return 0.0
		}
		return 1 / seconds
	case k.Words != nil && n.truthy():
		return k.Words[1]
	case k.Words != nil:
		return k.Words[0]
	case a.Type == cty.Bool:
		return n.truthy()
	case a.Type == cty.Number || a.Format == schema.FormatDuration:
		return numberOf(a, n)
	case a.Type.IsListType():
		return n.pythonTexts()
	case a.Type.IsMapType():
		return elementsOf(a, n)
	default:
		return n.pythonText()
	}
}

func numberOf(a schema.Attribute, n *node) any {
	f, ok := n.number()
	switch {
	case !ok:
		return notNumber(n)
	case hasLimit(a) && f > 1e15:
		return nil
	case hasLimit(a):
		f = max(f, float64(*a.Min))
	}
	return f
}

// notNumber is the value of a number that is none. It differs from each number.
func notNumber(n *node) string { return strconv.Quote(n.pythonText()) + " (not a number)" }

func elementsOf(a schema.Attribute, n *node) any {
	texts, lists := map[string]string{}, map[string][]string{}
	for _, e := range n.entries {
		texts[e.name], lists[e.name] = e.value.pythonText(), e.value.pythonTexts()
		if a.Type.ElementType() == cty.Number {
			texts[e.name] = format(schema.Attribute{}, numberOf(a, e.value))
		}
	}
	if a.Type.ElementType().IsListType() {
		return lists
	}
	return texts
}

// plain returns a value of npctl with the types of valueOf.
func plain(a schema.Attribute, v cty.Value) any {
	if v == cty.NilVal {
		return nil
	}
	if v, _ = v.UnmarkDeep(); v.IsNull() || !v.IsWhollyKnown() {
		return nil
	}
	switch t := v.Type(); {
	case a.Format == schema.FormatDuration && t == cty.String:
		d, err := schema.ParseDuration(v.AsString())
		if err != nil {
			return err.Error()
		}
		return d.Seconds()
	case t == cty.String:
		return v.AsString()
	case t == cty.Bool:
		return v.True()
	case t == cty.Number:
		f, _ := v.AsBigFloat().Float64()
		return f
	case t.IsListType():
		var texts []string
		for _, one := range v.AsValueSlice() {
			texts = append(texts, fmt.Sprint(plain(a, one)))
		}
		return texts
	default:
		texts := map[string]string{}
		for name, one := range v.AsValueMap() {
			texts[name] = format(schema.Attribute{}, plain(schema.Attribute{}, one))
			if one.Type() == cty.String && !one.IsNull() {
				texts[name] = one.AsString()
			}
		}
		return texts
	}
}

// native returns a value of schema.Values with the types of valueOf.
func native(v any) any {
	switch v := v.(type) {
	case int:
		return float64(v)
	case int64:
		return float64(v)
	case map[string]int64:
		texts := map[string]string{}
		for name, n := range v {
			texts[name] = strconv.FormatInt(n, 10)
		}
		return texts
	case map[string]resources.AnyOf:
		lists := map[string][]string{}
		for name, patterns := range v {
			lists[name] = patterns
		}
		return lists
	default:
		return v
	}
}

// listOfTexts is an attribute that is in no table.
var listOfTexts = schema.Attribute{Type: cty.List(cty.String)}

// unordered are the lists without a meaningful order.
var unordered = []string{"formats", "keep_formats", "labels", "host_keys", "availability_zones", "zookeeper-servers"}

// format returns a value as text.
func format(a schema.Attribute, v any) string {
	switch v := v.(type) {
	case nil:
		switch {
		case a.Type.IsListType():
			return "[]"
		case a.Type.IsMapType():
			return "{}"
		}
		return none
	case string:
		return cmp.Or(v, none)
	case float64:
		return strconv.FormatFloat(v, 'g', 9, 64)
	case []string:
		if slices.Contains(unordered, a.Name) {
			v = slices.Compact(slices.Sorted(slices.Values(v)))
		}
		return orEmpty(len(v), "[]", v)
	case map[string]string:
		return orEmpty(len(v), "{}", v)
	case map[string][]string:
		return orEmpty(len(v), "{}", v)
	default:
		return fmt.Sprint(v)
	}
}

func orEmpty(length int, empty string, v any) string {
	if length == 0 {
		return empty
	}
	return asJSON(v)
}

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// canonical returns JSON with sorted keys.
func canonical(v any) any {
	text, _ := v.(string)
	var parsed any
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), &parsed); err != nil {
		return err.Error()
	}
	return asJSON(parsed)
}
