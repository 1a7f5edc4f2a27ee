package openstack

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"go.yaml.in/yaml/v3"
)

// decodeYAML parses a file of clouds. Numbers remain text, because a password, project or region may consist of
// digits.
func decodeYAML(text []byte) (map[string]any, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	if len(document.Content) == 0 {
		return nil, nil
	}
	reader := yamlReader{left: maxYAMLNodes}
	value, err := reader.value(document.Content[0])
	if err != nil {
		return nil, err
	}
	values, ok := value.(map[string]any)
	if !ok && value != nil {
		return nil, errors.New("expected a mapping with the key \"clouds\"")
	}
	return values, nil
}

// maxYAMLNodes limits the expansion of nested aliases.
const maxYAMLNodes = 100_000

type yamlReader struct{ left int }

func (r *yamlReader) value(n *yaml.Node) (any, error) {
	if r.left--; r.left < 0 {
		return nil, fmt.Errorf("more than %d values", maxYAMLNodes)
	}
	switch n.Kind {
	case yaml.AliasNode:
		return r.value(n.Alias)
	case yaml.MappingNode:
		return r.mapping(n)
	case yaml.SequenceNode:
		return r.sequence(n)
	default:
		return scalar(n), nil
	}
}

func (r *yamlReader) sequence(n *yaml.Node) (any, error) {
	list := make([]any, 0, len(n.Content))
	for _, c := range n.Content {
		value, err := r.value(c)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, nil
}

func (r *yamlReader) mapping(n *yaml.Node) (any, error) {
	values, merged := map[string]any{}, map[string]any{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		value, err := r.value(n.Content[i+1])
		if err != nil {
			return nil, err
		}
		key := n.Content[i]
		if key.Tag == "!!merge" {
			addMerged(merged, value)
			continue
		}
		values[key.Value] = value
	}
	maps.Copy(merged, values)
	return merged, nil
}

// addMerged adds the content of a << key: one mapping, or several, of which the first takes precedence.
func addMerged(into map[string]any, value any) {
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	for _, v := range list {
		for key, inner := range mapOf(v) {
			if _, there := into[key]; !there {
				into[key] = inner
			}
		}
	}
}

func scalar(n *yaml.Node) any {
	switch n.Tag {
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true") || strings.EqualFold(n.Value, "yes") || strings.EqualFold(n.Value, "on")
	default:
		return n.Value
	}
}
