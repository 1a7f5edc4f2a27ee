package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// jsonSchema is a JSON Schema, ready for encoding/json.
type jsonSchema = map[string]any

// template is the pattern of a string that contains an expression; only Load determines its value.
const template = `[$%]\{`

// JSONSchema returns a JSON Schema of the configuration in HCL's JSON syntax (files that end with .hcl.json). Editors
// and language servers complete and check such files with it. It permits an expression "${…}" for every value.
func (l Language) JSONSchema() jsonSchema {
	w := &schemaWriter{defs: jsonSchema{}}
	root := w.body("", BlockSyntax{Blocks: l.Blocks})
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "npctl configuration in HCL's JSON syntax"
	root["$defs"] = w.defs
	return root
}

// schemaWriter collects the definitions of bodies, named by the path of the block such as provider.openstack.pool.
type schemaWriter struct{ defs jsonSchema }

// body returns the schema of the object with the attributes and blocks of a body.
func (w *schemaWriter) body(path string, b BlockSyntax) jsonSchema {
	properties := jsonSchema{"//": jsonSchema{"description": "A comment."}}
	required := []string{}
	for _, name := range slices.Sorted(maps.Keys(b.Attributes)) {
		a := b.Attributes[name]
		properties[name] = valueSchema(a)
		if a.Required && a.Inherited == "" {
			required = append(required, name)
		}
	}
	if b.ForEach {
		properties[metaForEach] = described(jsonSchema{"type": []string{"object", "array", "string"}}, "A map, an object or a set of strings: the block is repeated for each of its elements.")
		properties[metaName] = described(jsonSchema{"type": "string"}, "Name of the object, which may contain `${each.key}`; the default is `<label of the block>-<key>`.")
	}
	for _, name := range slices.Sorted(maps.Keys(b.Blocks)) {
		inner := b.Blocks[name]
		properties[name] = described(w.block(strings.TrimPrefix(path+"."+name, "."), inner), inner.Doc)
	}
	made := jsonSchema{"type": "object", "properties": properties, "additionalProperties": b.Free}
	if path != "" && len(b.Blocks) > 0 {
		properties[dynamicBlock] = described(jsonSchema{"type": []string{"object", "array"}}, "Generates blocks.")
	}
	if groups := schemaGroups(b); len(groups) > 0 {
		made["allOf"] = groups
	}
	if len(required) > 0 {
		made["required"] = required
	}
	return made
}

// schemaGroups returns the conditions of at_least_one_of for attributes that the block does not inherit.
func schemaGroups(b BlockSyntax) []any {
	var groups []any
	for _, names := range b.AtLeastOneOf {
		if slices.ContainsFunc(names, func(name string) bool { return b.Attributes[name].Inherited != "" }) {
			continue
		}
		var any []jsonSchema
		for _, name := range names {
			any = append(any, jsonSchema{"required": []string{name}})
		}
		groups = append(groups, jsonSchema{"anyOf": any})
	}
	return groups
}

// block returns the schema of the value of a block type: one object for each label, and then the body.
func (w *schemaWriter) block(path string, b BlockSyntax) jsonSchema {
	if len(b.Kinds) == 0 {
		w.defs[path] = described(w.body(path, b), b.Doc)
		return labelled(len(b.Labels), oneOrMore(jsonSchema{"$ref": "#/$defs/" + path}))
	}
	kinds := jsonSchema{}
	for _, kind := range slices.Sorted(maps.Keys(b.Kinds)) {
		one := b.Kinds[kind]
		w.defs[path+"."+kind] = described(w.body(path+"."+kind, one), one.Doc)
		kinds[kind] = described(labelled(len(b.Labels)-1, oneOrMore(jsonSchema{"$ref": "#/$defs/" + path + "." + kind})), one.Doc)
	}
	return oneOrMore(jsonSchema{"type": "object", "properties": kinds, "additionalProperties": false})
}

// labelled wraps a schema in one object for each label.
func labelled(labels int, s jsonSchema) jsonSchema {
	for range labels {
		s = oneOrMore(jsonSchema{"type": "object", "additionalProperties": s})
	}
	return s
}

// oneOrMore permits a value or a list of values, as HCL does for blocks.
func oneOrMore(s jsonSchema) jsonSchema {
	return jsonSchema{"anyOf": []jsonSchema{s, {"type": "array", "items": s}}}
}

func described(s jsonSchema, doc string) jsonSchema {
	if doc != "" {
		s["description"] = doc
	}
	return s
}

// valueSchema returns the schema of the values of an attribute. HCL converts between strings, numbers and booleans.
func valueSchema(a AttributeSyntax) jsonSchema {
	doc := a.Doc
	if a.Class != "" {
		doc += " Class: " + a.Class + "."
	}
	t, err := ctyjson.UnmarshalType(a.Type)
	if err != nil {
		return described(jsonSchema{}, doc)
	}
	s := typeSchema(t, a)
	if len(a.Default) > 0 {
		s["default"] = a.Default
	}
	return described(s, doc)
}

func typeSchema(t cty.Type, a AttributeSyntax) jsonSchema {
	expression := jsonSchema{"type": "string", "pattern": template}
	either := func(all ...jsonSchema) jsonSchema {
		return jsonSchema{"anyOf": append(all, expression, jsonSchema{"type": "null"})}
	}
	switch {
	case a.Format == formatReference:
		return either(jsonSchema{"type": "object", "required": []string{"type", "name"}})
	case len(a.OneOf) > 0 && t == cty.String:
		return either(jsonSchema{"enum": a.OneOf})
	case a.Format != "" && t == cty.String:
		return either(jsonSchema{"type": "string", "pattern": `^[-+]?(0|([0-9]+(\.[0-9]*)?(ns|us|µs|μs|ms|s|m|h|d|w))+)$`})
	case t == cty.String:
		return jsonSchema{"type": []string{"string", "number", "boolean", "null"}}
	case t == cty.Number:
		number := jsonSchema{"type": "number"}
		if a.Minimum != nil {
			number["minimum"] = *a.Minimum
		}
		return either(number, jsonSchema{"type": "string", "pattern": `^-?[0-9]`})
	case t == cty.Bool:
		return either(jsonSchema{"enum": []any{true, false, "true", "false"}})
	case t.IsListType() || t.IsSetType():
		return either(jsonSchema{"type": "array", "items": typeSchema(t.ElementType(), AttributeSyntax{OneOf: a.OneOf})})
	case t.Equals(textsMap):
		list := typeSchema(texts, AttributeSyntax{})
		return either(jsonSchema{"type": "object", "additionalProperties": either(jsonSchema{"type": "string"}, list)})
	case t.IsMapType():
		return either(jsonSchema{"type": "object", "additionalProperties": typeSchema(t.ElementType(), AttributeSyntax{})})
	default:
		return jsonSchema{}
	}
}
