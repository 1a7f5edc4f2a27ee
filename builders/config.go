package builders

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/npctl/npctl/resources/schema"
)

// Decode reads a block into the struct to which into points, as schema.Decode does, and returns its secrets: every text
// in a sensitive attribute or with a mark.
func Decode(config cty.Value, s schema.Block, into any) (secrets []string, err error) {
	plain, marks := config.UnmarkDeepWithPaths()
	if plain == cty.NilVal || plain.IsNull() || !plain.Type().IsObjectType() || !plain.IsWhollyKnown() {
		return nil, fmt.Errorf("configuration is not a known object: %#v", plain.Type())
	}
	for _, m := range marks {
		if part, err := m.Path.Apply(plain); err == nil {
			secrets = append(secrets, texts(part)...)
		}
	}
	for _, a := range s.Attributes {
		if a.Sensitive && plain.Type().HasAttribute(a.Name) {
			secrets = append(secrets, texts(plain.GetAttr(a.Name))...)
		}
	}
	slices.Sort(secrets)
	return slices.Compact(secrets), schema.Decode(plain, into)
}

// texts lists the strings and numbers in a value.
func texts(value cty.Value) (found []string) {
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

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// CheckVariables returns the check of a map of environment variables. reserved returns an error for names that the
// builder sets.
func CheckVariables(reserved func(name string) error) schema.Check {
	return func(v cty.Value) error {
		for name := range v.AsValueMap() {
			if !variableName.MatchString(name) {
				return fmt.Errorf("%q is not the name of an environment variable; use letters, digits and underscores", name)
			}
			if err := reserved(name); err != nil {
				return err
			}
		}
		return nil
	}
}

// ReservedVariable returns an error for the names that npctl itself sets for scripts.
func ReservedVariable(name string) error {
	if strings.HasPrefix(name, "NPCTL_") {
		return fmt.Errorf("%s is set by npctl: choose a name without NPCTL_", name)
	}
	return nil
}
