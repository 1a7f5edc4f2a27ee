package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// movedBlock is the schema of a moved block.
var movedBlock = schema.Block{
	Doc: "A new name of a provider, pool, static node, label or image; see [Moved](refactoring.md#moved). The plan renames the records and replaces nothing. The block may stay after the move.",
	Attributes: []schema.Attribute{
		{Name: "from", Type: cty.String, Required: true, Check: blockAddress,
			Doc: "The earlier address: `provider.NAME`, `provider.NAME.pool.NAME`, `provider.NAME.pool.NAME.node.NAME`, `label.NAME`, `diskimage.NAME` or `zuul_image.NAME`. The configuration has no such block any more."},
		{Name: "to", Type: cty.String, Required: true, Check: blockAddress,
			Doc: "The present address, of the same type. A pool stays in its provider, and a static node in its pool."},
	},
}

func blockAddress(v cty.Value) error {
	_, err := resources.ParseBlockRef(v.AsString())
	return err
}

// maxMoves limits the moved blocks, each of which is compared with each record.
const maxMoves = 200

// parsedMove is a move with the positions of its attributes. A move without a block has none.
type parsedMove struct {
	resources.Move
	fromAt, toAt *hcl.Range
}

// readMoves returns the moves of all moved blocks, in the order of the blocks.
func (r *blockReader) readMoves(blocks []*hclsyntax.Block, ctx *hcl.EvalContext) (moves []parsedMove) {
	for _, block := range blocks {
		at := block.DefRange()
		c, all := r.body(withAddress(withAddress(block, "from"), "to"), ctx, r.specs.moved)
		from, ok := all.usable("from")
		to, known := all.usable("to")
		if !ok || !known {
			continue
		}
		one := parsedMove{fromAt: c.rangeOf("from"), toAt: c.rangeOf("to")}
		var fromErr, toErr error
		one.From, fromErr = resources.ParseBlockRef(from.AsString())
		one.To, toErr = resources.ParseBlockRef(to.AsString())
		if one.Source = r.sourceOf(at); fromErr == nil && toErr == nil { // otherwise reported by the check of the attribute
			r.digest(resources.BlockRef{Type: "moved", Name: one.From.String()}, "", at, body{c, all})
			moves = append(moves, one)
		}
	}
	if len(moves) > maxMoves {
		r.problem(blocks[0].DefRange().Ptr(), "Too many moves", fmt.Sprintf("The configuration has %d moved blocks; the limit is %d. Remove the blocks of moves that are complete.", len(moves), maxMoves))
	}
	return moves
}

// String names the move in a message, with its place if it has one.
func (m parsedMove) String() string {
	text := fmt.Sprintf("from %s to %s", m.From, m.To)
	if m.Source.File != "" {
		text += " at " + m.Source.String()
	}
	return text
}

// withMoves adds the moves that have no block.
func withMoves(parsed []parsedMove, more resources.Moves) []parsedMove {
	for _, m := range more {
		if !slices.ContainsFunc(parsed, func(o parsedMove) bool { return o.From == m.From && o.To == m.To }) {
			parsed = append(parsed, parsedMove{Move: m})
		}
	}
	return parsed
}

// movesOf returns the moves without positions.
func movesOf(parsed []parsedMove) (moves resources.Moves) {
	for _, m := range parsed {
		moves = append(moves, m.Move)
	}
	return moves
}

// checkMoves rejects moves from configured blocks and to missing ones.
func (c *ruleChecker) checkMoves() {
	if !c.knowsBlocks() {
		return
	}
	exists := c.config.blockRefs()
	moves := movesOf(c.config.moves)
	for i, m := range c.config.moves {
		other := slices.IndexFunc(c.config.moves[:i], func(o parsedMove) bool { return o.From == m.From || o.To == m.To })
		last, ends := moves.Last(m.To)
		switch {
		case m.From.Type != m.To.Type || m.From.Provider != m.To.Provider || m.From.Pool != m.To.Pool:
			c.problem(m.toAt, "Invalid move", fmt.Sprintf("%s cannot become %s: a block keeps its type, a pool its provider, and a static node its pool.", m.From, m.To))
		case m.From == m.To:
			c.problem(m.toAt, "Invalid move", fmt.Sprintf("%s is the same name.", m.To))
		case exists[m.From].File != "":
			c.problem(m.fromAt, "Invalid move", fmt.Sprintf("%s is still configured, at %s. Rename that block, or omit the move.", m.From, exists[m.From]))
		case other >= 0:
			c.problem(m.fromAt, "Invalid move", fmt.Sprintf("Another move, %s, has the same from or to.", c.config.moves[other]))
		case !ends:
			c.problem(m.fromAt, "Invalid move", fmt.Sprintf("The moves from %s lead back to it.", m.From))
		case exists[last].File == "":
			c.problem(m.toAt, "Invalid move", fmt.Sprintf("%s is not configured.", last))
		case c.namedAfterAddress(m.To):
			c.problem(m.toAt, "Invalid move", fmt.Sprintf("The address of %s is its name, so a new name leads to another machine. Set its attribute address, to %q if that was its address.", m.To, m.From.Name))
		}
	}
}

// knowsBlocks reports whether blockRefs is complete: an invalid block is not in it.
func (c *ruleChecker) knowsBlocks() bool {
	return !c.diags.HasErrors() && !c.partial && !slices.Contains(slices.Collect(maps.Values(c.incomplete)), true)
}

// namedAfterAddress reports whether a static node is reached by its name.
func (c *ruleChecker) namedAfterAddress(ref resources.BlockRef) bool {
	for _, p := range c.config.providers {
		for _, pool := range p.pools {
			for _, n := range pool.nodes {
				if ref.Type == "node" && ref.Provider == p.Name && ref.Pool == pool.Name && ref.Name == n.Name {
					return n.Address == n.Name
				}
			}
		}
	}
	return false
}

// blockRefs returns the positions of the blocks that moved and removed blocks may name. That of an image in a provider is
// the position of a block that uses it.
func (w *parsedConfig) blockRefs() map[resources.BlockRef]resources.Source {
	refs := map[resources.BlockRef]resources.Source{}
	for name, l := range w.labels {
		refs[resources.BlockRef{Type: "label", Name: name}] = l.Source
	}
	for name, i := range w.images {
		refs[resources.BlockRef{Type: string(i.Kind), Name: name}] = i.Source
	}
	for _, p := range w.providers {
		refs[resources.BlockRef{Type: "provider", Name: p.Name}] = p.Source
		for _, i := range p.images {
			refs[resources.BlockRef{Type: "image", Provider: p.Name, Name: i.Image.Name}] = i.Source
		}
		for _, pool := range p.pools {
			refs[resources.BlockRef{Type: "pool", Provider: p.Name, Name: pool.Name}] = pool.Source
			for _, n := range pool.nodes {
				refs[resources.BlockRef{Type: "node", Provider: p.Name, Pool: pool.Name, Name: n.Name}] = n.Source
			}
			for _, o := range pool.offers {
				refs[resources.BlockRef{Type: "offer", Provider: p.Name, Pool: pool.Name, Name: o.Label}] = o.Source
				if o.Image.IsUploaded() {
					refs[resources.BlockRef{Type: "image", Provider: p.Name, Name: o.Image.Name}] = o.Source
				}
			}
		}
	}
	return refs
}
