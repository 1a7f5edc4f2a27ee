package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// tagsOf returns the names in the config tags of a struct.
func tagsOf(s reflect.Type) []string {
	var names []string
	for i := range s.NumField() {
		name, option, _ := strings.Cut(s.Field(i).Tag.Get("config"), ",")
		if option == "inline" {
			names = append(names, tagsOf(s.Field(i).Type)...)
		} else if name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Every attribute and nested block that is not declared by its field is decoded to one, or other code reads it.
func TestFieldsMatchTheSchemas(t *testing.T) {
	for name, test := range map[string]struct {
		block schema.Block
		into  any
		other []string // read by other code
	}{
		"npctl":      {npctlBlock, resources.Settings{}, []string{"required_version"}},
		"variable":   {variableBlock, variable{}, []string{"type", "default", "description"}},
		"diskimage":  {diskimageBlock, resources.Image{}, []string{"abstract", "parent"}},
		"zuul_image": {zuulImageBlock, resources.Image{}, []string{"rebuild_age"}}, // diskimages only
	} {
		var names []string
		for _, attr := range test.block.Attributes {
			names = append(names, attr.Name)
		}
		for _, block := range test.block.Blocks {
			names = append(names, block.Name)
		}
		fields := tagsOf(reflect.TypeOf(test.into))
		for _, field := range fields {
			if !slices.Contains(names, field) && !slices.Contains(test.other, field) {
				t.Errorf("%s: no attribute for the field with the tag %q", name, field)
			}
		}
		for _, attr := range names {
			if !slices.Contains(fields, attr) && !slices.Contains(test.other, attr) {
				t.Errorf("%s: no field for the attribute %q", name, attr)
			}
		}
	}
}
