// Package block reads a decoded block of configuration: attributes by name, and the secrets in it.
package block

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/xhit/go-str2duration/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/npctl/npctl/resources/schema"
)

// Block is a value of a schema's type. Its getters return the zero value for an attribute that is null or missing.
type Block struct {
	value   cty.Value
	secrets []string
}

// Read removes the marks from the value. Every string below a mark is a secret, and so is every string of an
// attribute that the schema declares sensitive.
func Read(value cty.Value, s schema.Block) (Block, error) {
	plain, marks := value.UnmarkDeepWithPaths()
	if plain == cty.NilVal || plain.IsNull() || !plain.Type().IsObjectType() || !plain.IsWhollyKnown() {
		return Block{}, fmt.Errorf("configuration is not a known object: %#v", plain.Type())
	}
	b := Block{value: plain}
	for _, m := range marks {
		if part, err := m.Path.Apply(plain); err == nil {
			b.secrets = append(b.secrets, texts(part)...)
		}
	}
	for _, a := range s.Attributes {
		if a.Sensitive {
			b.secrets = append(b.secrets, texts(b.get(a.Name))...)
		}
	}
	slices.Sort(b.secrets)
	b.secrets = slices.Compact(b.secrets)
	return b, nil
}

// Secrets lists every sensitive text in the block.
func (b Block) Secrets() []string { return b.secrets }

// texts lists the strings and numbers in a value.
func texts(value cty.Value) []string {
	var found []string
	_ = cty.Walk(value, func(_ cty.Path, v cty.Value) (bool, error) {
		if !v.IsNull() && v.Type().IsPrimitiveType() && v.Type() != cty.Bool {
			if s, err := convert.Convert(v, cty.String); err == nil {
				found = append(found, s.AsString())
			}
		}
		return true, nil
	})
	return found
}

func (b Block) get(name string) cty.Value {
	if !b.value.Type().HasAttribute(name) {
		return cty.NullVal(cty.DynamicPseudoType)
	}
	return b.value.GetAttr(name)
}

// String returns an attribute as a string.
func (b Block) String(name string) string { return text(b.get(name)) }

func text(v cty.Value) string {
	if v.IsNull() {
		return ""
	}
	s, err := convert.Convert(v, cty.String)
	if err != nil || s.IsNull() {
		return ""
	}
	return s.AsString()
}

// Bool returns a boolean attribute.
func (b Block) Bool(name string) bool {
	v := b.get(name)
	return !v.IsNull() && v.Type() == cty.Bool && v.True()
}

// Strings returns a list attribute.
func (b Block) Strings(name string) []string {
	v := b.get(name)
	if v.IsNull() || !v.CanIterateElements() {
		return nil
	}
	var list []string
	for _, element := range v.Elements() {
		list = append(list, text(element))
	}
	return list
}

// Map returns an attribute that is a map of strings.
func (b Block) Map(name string) map[string]string {
	v := b.get(name)
	if v.IsNull() || !v.CanIterateElements() {
		return nil
	}
	values := map[string]string{}
	for key, element := range v.Elements() {
		values[key.AsString()] = text(element)
	}
	return values
}

// Duration returns an attribute in the duration format, such as "90s" or "7d".
func (b Block) Duration(name string) (time.Duration, error) {
	written := b.String(name)
	if written == "" || written == "0" {
		return 0, nil
	}
	d, err := str2duration.ParseDuration(written)
	if err != nil {
		return 0, fmt.Errorf("%s = %q is not a duration; write one such as \"90s\" or \"10m\"", name, written)
	}
	return d, nil
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// CheckVariables checks the names of a map of environment variables. taken returns an error for names that the
// builder sets.
func CheckVariables(v cty.Value, taken func(name string) error) error {
	for name := range v.AsValueMap() {
		if !variableName.MatchString(name) {
			return fmt.Errorf("%q is not the name of an environment variable; use letters, digits and underscores", name)
		}
		if err := taken(name); err != nil {
			return err
		}
	}
	return nil
}

// Merge merges maps; later ones take precedence.
func Merge(all ...map[string]string) map[string]string {
	merged := map[string]string{}
	for _, m := range all {
		maps.Copy(merged, m)
	}
	return merged
}
