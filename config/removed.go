package config

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// removedBlock is the schema of a removed block.
var removedBlock = schema.Block{
	Doc: "A block that is no longer configured, and its objects stay; see [Removed](refactoring.md#removed). npctl forgets them instead of deleting them. The block may stay afterwards.",
	Attributes: []schema.Attribute{
		{Name: "from", Type: cty.String, Required: true, Check: removedAddress,
			Doc: "The address of the block: `provider.NAME`, `provider.NAME.pool.NAME`, `provider.NAME.pool.NAME.label.NAME`, `provider.NAME.pool.NAME.node.NAME`, `provider.NAME.image.NAME`, `label.NAME`, `diskimage.NAME` or `zuul_image.NAME`. The configuration has no such block any more."},
	},
	Blocks: []schema.NestedBlock{{Name: "lifecycle", Min: 1, Max: 1, Schema: lifecycleBlock}},
}

var lifecycleBlock = schema.Block{
	Doc: "It states that the objects stay.",
	Attributes: []schema.Attribute{
		{Name: "destroy", Type: cty.Bool, Required: true, Check: onlyFalse,
			Doc: "Must be `false`: the objects stay. Without a removed block npctl deletes them."},
	},
}

func removedAddress(v cty.Value) error {
	_, err := resources.ParseRemovedRef(v.AsString())
	return err
}

func onlyFalse(v cty.Value) error {
	if v.True() {
		return errors.New("must be false; omit the removed block if npctl is to delete the objects")
	}
	return nil
}

// maxRemoved limits the removed blocks, each of which is compared with each record.
const maxRemoved = 200

// parsedRemoval is a removed block with the position of its address.
type parsedRemoval struct {
	resources.Removal
	at *hcl.Range
}

// readRemoved returns the removed blocks, in their order.
func (r *blockReader) readRemoved(blocks []*hclsyntax.Block, ctx *hcl.EvalContext) (removed []parsedRemoval) {
	for _, block := range blocks {
		at := block.DefRange()
		c, all := r.body(withAddress(block, "from"), ctx, r.specs.removed)
		from, ok := all.usable("from")
		if !ok {
			continue
		}
		ref, err := resources.ParseRemovedRef(from.AsString())
		if err != nil {
			continue // reported by the check of the attribute
		}
		r.digest(resources.BlockRef{Type: "removed", Name: ref.String()}, "", at, body{c, all})
		removed = append(removed, parsedRemoval{resources.Removal{From: ref, Source: r.sourceOf(at)}, c.rangeOf("from")})
	}
	if len(removed) > maxRemoved {
		r.problem(blocks[0].DefRange().Ptr(), "Too many removed blocks", fmt.Sprintf("The configuration has %d removed blocks; the limit is %d. Remove those without objects.", len(removed), maxRemoved))
	}
	return removed
}

// checkRemoved rejects removed blocks that name configured blocks.
func (c *ruleChecker) checkRemoved() {
	if !c.knowsBlocks() {
		return
	}
	exists := c.config.blockRefs()
	for i, r := range c.config.removed {
		move := slices.IndexFunc(c.config.moves, func(m parsedMove) bool { return m.From == r.From })
		twin := slices.IndexFunc(c.config.removed[:i], func(o parsedRemoval) bool { return o.From == r.From })
		switch {
		case exists[r.From].File != "":
			c.problem(r.at, "Invalid removed block", fmt.Sprintf("%s is still configured, at %s. Remove that configuration, or omit the removed block.", r.From, exists[r.From]))
		case move >= 0:
			c.problem(r.at, "Invalid removed block", fmt.Sprintf("A move gives %s another name: %s.", r.From, c.config.moves[move]))
		case twin >= 0:
			c.problem(r.at, "Invalid removed block", fmt.Sprintf("Another removed block, at %s, names %s.", c.config.removed[twin].Source, r.From))
		}
	}
}
