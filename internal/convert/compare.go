package convert

import (
	"encoding/json"
	"maps"
	"strings"

	"github.com/npctl/npctl/resources"
)

// Comparison is the result of Compare.
type Comparison struct {
	Compared    int          // number of attributes that both sides or one side has
	Differences []Difference // sorted by path
	Deliberate  []Difference // with a reason; sorted by path
}

// Difference is one attribute with different values. An absent attribute has the value "absent".
type Difference struct {
	Path            string
	Nodepool, Npctl string
	Line            int    // in nodepool.yaml; 0 if it does not have the attribute
	Reason          string // of a deliberate difference

	secret bool
}

// Secret reports whether the values may contain secrets.
func (d Difference) Secret() bool { return d.secret }

const absent = "absent"

// deliberate is one row of the table of deliberate differences.
type deliberate struct {
	attr   string // of npctl
	holds  func(nodepool, npctl model, path string) bool
	reason string
}

const builderImage = "the image has no elements here, because another nodepool.yaml defines it"

// differences are the attributes in which npctl differs from Nodepool on purpose.
var differences = []deliberate{
	{"images_dir", isDefault("images"), "npctl has a default; Nodepool's builder needs a value"},
	{"build_log_dir", isDefault("build-logs"), "npctl's default is beside the configuration, because /var/log/nodepool belongs to Nodepool"},
	{"properties", superset, "npctl merges the properties of an image with those of its parent; Nodepool drops the parent's"},
	{"env", inheritedVariables, "npctl's images inherit the variables that the secure file has for a parent; Nodepool's do not"},
	{"elements", withoutElements, builderImage}, {"pause", withoutElements, builderImage},
}

// isDefault reports whether neither side sets the attribute.
func isDefault(npctlDefault string) func(nodepool, npctl model, path string) bool {
	return func(nodepool, npctl model, path string) bool {
		return !nodepool[path].Set && npctl[path].Text == npctlDefault
	}
}

func superset(nodepool, npctl model, path string) bool {
	var less, more map[string]string
	if json.Unmarshal([]byte(nodepool[path].Text), &less) != nil || json.Unmarshal([]byte(npctl[path].Text), &more) != nil {
		return false
	}
	for key, text := range less {
		if more[key] != text {
			return false
		}
	}
	return true
}

// inheritedVariables reports whether npctl has all variables of Nodepool, and variables with another value are those of
// other images.
func inheritedVariables(nodepool, npctl model, path string) bool {
	if !strings.HasPrefix(path, "diskimage ") {
		return false
	}
	variables := func(m model, path string) (all map[string]string) {
		if json.Unmarshal([]byte(m[path].Text), &all) != nil {
			return nil
		}
		return all
	}
	inherited := map[string]map[string]bool{} // values by name
	for other := range nodepool {
		if other == path || !strings.HasSuffix(other, ".env-vars") {
			continue
		}
		for name, text := range variables(nodepool, other) {
			if inherited[name] == nil {
				inherited[name] = map[string]bool{}
			}
			inherited[name][text] = true
		}
	}
	own, all := variables(nodepool, path), variables(npctl, path)
	for name, text := range all {
		if had, ok := own[name]; (!ok || had != text) && !inherited[name][text] {
			return false
		}
		delete(own, name)
	}
	return len(own) == 0
}

// withoutElements reports whether the path is that of an image that Nodepool cannot build with this file. npctl needs
// an element, so the image is paused.
func withoutElements(nodepool, npctl model, path string) bool {
	image := path[:strings.LastIndex(path, ".")+1]
	return strings.HasPrefix(path, "diskimage ") && nodepool[image+"elements"].Text == "[]" && npctl[image+"pause"].Text == "true"
}

// Compare compares the configuration of Nodepool with that of npctl, attribute by attribute. env looks up the environment
// variables that the input refers to.
func Compare(in Input, env func(string) (string, bool), d resources.Desired) (Comparison, error) {
	nodepool, err := effectiveModel(in, env)
	if err != nil {
		return Comparison{}, err
	}
	npctl := fromDesired(d, in.Drivers)
	all := maps.Clone(npctl)
	maps.Copy(all, nodepool)
	c := Comparison{Compared: len(all)}
	for _, path := range sortedKeys(all) {
		a, inNodepool := nodepool[path]
		b, inNpctl := npctl[path]
		if !inNodepool {
			a.Text = absent
		}
		if !inNpctl {
			b.Text = absent
		}
		if a.Text == b.Text {
			continue
		}
		diff := Difference{Path: path, Nodepool: a.Text, Npctl: b.Text, Line: a.Line, secret: a.secret || b.secret}
		if diff.Reason = reasonFor(nodepool, npctl, path); diff.Reason == "" {
			c.Differences = append(c.Differences, diff)
		} else {
			c.Deliberate = append(c.Deliberate, diff)
		}
	}
	return c, nil
}

func reasonFor(nodepool, npctl model, path string) string {
	for _, row := range differences {
		if row.attr == npctl[path].attr && row.holds(nodepool, npctl, path) {
			return row.reason
		}
	}
	return ""
}
