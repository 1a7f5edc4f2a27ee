// Package nodepoolconf reads a configuration of Nodepool into Nodepool's effective model: what its launcher and builder
// work with after defaults, inheritance, merges and the secure file. It compares that model with a configuration of
// npctl. It shares no code with internal/convert, so that each finds the mistakes of the other.
//
// A model maps paths to values. Paths use Nodepool's names, such as
//
//	provider "c".pool "main".label "small".flavor-name
//
// and values have one form on both sides: times in seconds, rates in calls per second, lists and maps as JSON, and
// "none" without a value. What another key already implies is not a path of its own: networks, security groups and
// zones of a pool are attributes of its labels, and abstract images exist only in their children.
//
// The settings of aws, azure and ibmvpc for uploaded images are not modeled. Nodepool's web server has no counterpart in a
// configuration of npctl and is not modeled. A label of openstack whose diskimage is not in the provider is not in the
// model: Nodepool does not serve it. Each project of openshiftpods, which is a pool in Nodepool, is a provider, because
// it is one in npctl.
package nodepoolconf

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// Value is one attribute in effect. Line is where it was set, or that of its block for a default.
type Value struct {
	Text string
	Line int
	// Set says that the file has the value; else it is Nodepool's default.
	Set bool
	// Unreadable says that the path is that of a block which cannot be read. Text is the reason.
	Unreadable bool
}

// Model maps paths to the values in effect.
type Model map[string]Value

const none = "none"

func (m Model) put(path, key, text string, line int, set bool) {
	m[path+key] = Value{Text: text, Line: line, Set: set}
}

// under returns the prefix of the attributes of a named block.
func under(prefix, kind, name string) string { return fmt.Sprintf("%s%s %q.", prefix, kind, name) }

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// list formats an ordered list, set formats a list without a meaningful order.
func list(texts []string) string {
	if len(texts) == 0 {
		return "[]"
	}
	return asJSON(texts)
}

func set(texts []string) string {
	texts = slices.Clone(texts)
	slices.Sort(texts)
	return list(slices.Compact(texts))
}

func textMap(all map[string]string) string {
	if len(all) == 0 {
		return "{}"
	}
	return asJSON(all)
}

func number(n float64) string { return strconv.FormatFloat(n, 'g', 9, 64) }

func orNone(text string) string {
	if text == "" {
		return none
	}
	return text
}
