package syntax

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Override returns a block with the content of a block in an override file merged into it: an attribute replaces the
// attribute with its name, and nested blocks replace all nested blocks of their type. A dynamic block counts as a block
// of the type that it generates. It changes neither block.
func Override(block, with *hclsyntax.Block) *hclsyntax.Block {
	body := *block.Body
	body.Attributes = maps.Clone(body.Attributes)
	maps.Copy(body.Attributes, with.Body.Attributes)
	replaced := map[string]bool{}
	for _, inner := range with.Body.Blocks {
		replaced[generated(inner)] = true
	}
	body.Blocks = slices.DeleteFunc(slices.Clone(body.Blocks), func(inner *hclsyntax.Block) bool { return replaced[generated(inner)] })
	body.Blocks = append(body.Blocks, with.Body.Blocks...)
	merged := *block
	merged.Body = &body
	return &merged
}

// generated returns the type of a nested block, or of the blocks that a dynamic block generates.
func generated(block *hclsyntax.Block) string {
	if block.Type == "dynamic" && len(block.Labels) == 1 {
		return block.Labels[0]
	}
	return block.Type
}
