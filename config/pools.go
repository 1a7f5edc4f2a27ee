package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// poolContext holds the values of a pool and its provider that its labels need.
type poolContext struct {
	provider *parsedProvider
	pool     values
	// hashed and shown are the replacing attributes of the pool (except the attributes that labels have too) and the
	// provider.
	hashed map[string]cty.Value
	shown  map[string]string
	seen   map[string]resources.Source // label or node blocks of the pool, by type and name
}

// pools creates the pools of a provider.
func (r *providerReader) pools(p *parsedProvider, parts []part, scope *hcl.EvalContext, static cty.Value, all values) {
	seen := map[string]resources.Source{}
	for _, part := range parts {
		// The cloud images extend the scope of the block, which may be inside a dynamic block.
		ctx := part.ctx.NewChild()
		ctx.Variables = scope.Variables
		instances, ok := r.expand.instances(part.block, 0, ctx, "pool")
		if !ok {
			continue
		}
		for _, one := range instances {
			if other, twice := seen[one.name]; twice {
				r.sameName(one, "pool", other)
				continue
			}
			seen[one.name] = r.sourceOf(one.block.DefRange())
			p.pools = append(p.pools, r.pool(p, one, one.context(ctx), static, all))
		}
	}
}

func (r *providerReader) pool(p *parsedProvider, one instance, ctx *hcl.EvalContext, static cty.Value, provider values) *parsedPool {
	at := one.block.DefRange()
	c, all := r.body(one.block, ctx, p.specs.pool)
	made := &parsedPool{at: at, Pool: resources.Pool{Name: one.name, Priority: p.Priority, Config: all.of(p.specs.Pool), Source: r.sourceOf(at)}}
	all.decode(&made.Pool)
	r.digest(resources.BlockRef{Type: "pool", Provider: p.Name, Name: one.name}, "", at, body{c, all})
	around := &poolContext{provider: p, pool: all, shown: map[string]string{}, seen: map[string]resources.Source{}, hashed: map[string]cty.Value{
		"driver": cty.StringVal(p.specs.kind), "provider": static, "pool": staticOf(p.specs.poolOnly, all),
	}}
	showStatic(around.shown, "provider.", p.specs.Provider, provider)
	showStatic(around.shown, "pool.", p.specs.poolOnly, all)
	for _, part := range c.parts {
		r.poolPart(made, part, around)
	}
	return made
}

func (r *providerReader) poolPart(pool *parsedPool, part part, around *poolContext) {
	p := around.provider
	switch {
	case part.block.Type == "label" && !p.specs.HasLabels:
		r.noSuchBlock(p, part, "does not create nodes, so its pools have no label blocks; set labels in the node blocks")
		return
	case part.block.Type == "node" && !p.specs.HasNodes:
		r.noSuchBlock(p, part, "creates nodes, so its pools have no node blocks")
		return
	}
	instances, ok := r.expand.instances(part.block, 0, part.ctx, "pool label")
	if !ok {
		return
	}
	for _, one := range instances {
		ctx := one.context(part.ctx)
		if part.block.Type == "label" {
			r.offer(pool, one, ctx, around)
		} else {
			r.node(pool, one, ctx, around)
		}
	}
}

// offer creates the offer of one label block of a pool.
func (r *providerReader) offer(pool *parsedPool, one instance, ctx *hcl.EvalContext, around *poolContext) {
	s := around.provider.specs
	at := one.block.DefRange()
	if other, twice := around.seen["label "+one.name]; twice {
		r.problem(at.Ptr(), "Duplicate label", fmt.Sprintf("The pool offers the label %q already, at %s.", one.name, other))
		return
	}
	around.seen["label "+one.name] = r.sourceOf(at)
	c := r.bodies.decode(one.block.Body, ctx, s.offer, at)
	all := r.bodies.complete(c, around.pool)
	r.bodies.checkNeeded(s.Label, c, all)
	made := parsedOffer{at: one.block.LabelRanges[0], imageAt: at, Offer: resources.Offer{
		Label: one.name, Config: all.of(s.Label), Source: r.sourceOf(at), Static: map[string]string{},
	}}
	r.digest(resources.BlockRef{Type: "offer", Provider: around.provider.Name, Pool: pool.Name, Name: one.name}, "", at, body{c, all})
	image, known := cty.NullVal(schema.ImageRef), true
	if s.BootsImages() {
		made.imageAt = *c.rangeOf("image")
		image, known = all.usable("image")
	}
	r.incomplete["offered image"] = r.incomplete["offered image"] || !known
	if known {
		made.Image = refOf(image)
		if made.Config.IsWhollyKnown() {
			made.Hashed = hashOffer(image, staticOf(s.label, all), around.hashed)
			made.Hashes = made.Hashed.Hashes("")
			for _, former := range r.moves.FormerImages(made.Image.Name) {
				if made.Image.IsUploaded() {
					made.FormerHashed = append(made.FormerHashed, hashOffer(renamedImage(image, former), staticOf(s.label, all), around.hashed))
				}
			}
		}
	}
	maps.Copy(made.Static, around.shown)
	showStatic(made.Static, "", offerBlockOf(s.Driver), all)
	showStatic(made.Static, "", s.Label, all)
	made.Values = plannedValues(s.label, all)
	pool.offers = append(pool.offers, made)
}

// renamedImage returns a reference to an image under another name.
func renamedImage(image cty.Value, name string) cty.Value {
	plain, marks := image.UnmarkDeepWithPaths()
	parts := plain.AsValueMap()
	parts["name"] = cty.StringVal(name)
	return cty.ObjectVal(parts).MarkWithPaths(marks)
}

func hashOffer(image, label cty.Value, around map[string]cty.Value) resources.HashSource {
	object := map[string]cty.Value{"image": image, "label": label}
	for name, value := range around {
		if !value.IsWhollyKnown() {
			return resources.HashSource{}
		}
		object[name] = value
	}
	return resources.SourceOfHash(cty.ObjectVal(object))
}

// node creates a static node.
func (r *providerReader) node(pool *parsedPool, one instance, ctx *hcl.EvalContext, around *poolContext) {
	p := around.provider
	s, at := p.specs, one.block.DefRange()
	if other, twice := around.seen["node "+one.name]; twice {
		r.sameName(one, "node", other)
		return
	}
	around.seen["node "+one.name] = r.sourceOf(at)
	c, all := r.body(one.block, ctx, s.node)
	made := &parsedNode{at: at, labelsAt: *c.rangeOf("labels"), StaticNode: resources.StaticNode{
		Name: one.name, Config: all.of(s.Node), Source: r.sourceOf(at), Static: map[string]string{},
	}}
	all.decode(&made.StaticNode)
	made.Login.ConnectionPort = portOf(made.Login)
	made.Address = cmp.Or(made.Address, one.name)
	if !all["labels"].IsWhollyKnown() || !all["slots"].IsKnown() {
		r.incomplete["pool label"] = true
	}
	static := staticOf(s.wholeNode, all)
	made.Hashed = resources.SourceOfHash(static)
	made.Hashes = made.Hashed.Hashes("")
	former := append([]values{all}, r.withFormerLabels(all)...)
	if r.moves.RenamesNode(p.Name, pool.Name, made.Address, one.name) { // its address was its earlier name
		for _, earlier := range slices.Clone(former) {
			unset := maps.Clone(earlier)
			unset["address"] = cty.NullVal(cty.String)
			former = append(former, unset)
		}
	}
	for _, earlier := range former[1:] {
		made.FormerHashed = append(made.FormerHashed, resources.SourceOfHash(staticOf(s.wholeNode, earlier)))
	}
	showStatic(made.Static, "", s.wholeNode, all)
	r.digest(resources.BlockRef{Type: "node", Provider: p.Name, Pool: pool.Name, Name: one.name}, "", at, body{c, all})
	pool.nodes = append(pool.nodes, made)
}

// withFormerLabels returns the attributes of a static node before each of the moves of its labels.
func (r *providerReader) withFormerLabels(all values) (former []values) {
	if _, ok := all.usable("labels"); !ok {
		return nil
	}
	labels, marks := all["labels"].UnmarkDeepWithPaths()
	for n := 0; ; n++ {
		names, renamed := labels.AsValueSlice(), false
		for i, name := range names {
			if name.IsNull() {
				return nil
			}
			if earlier := r.moves.FormerLabels(name.AsString()); n < len(earlier) {
				names[i], renamed = cty.StringVal(earlier[n]), true
			}
		}
		if !renamed {
			return former
		}
		earlier := maps.Clone(all)
		earlier["labels"] = cty.ListVal(names).MarkWithPaths(marks)
		former = append(former, earlier)
	}
}

// nodeSchema returns the complete schema of a node block: the language's and the driver's.
func nodeSchema(d schema.Driver) schema.Block {
	own := without(d.Node, nodeBlock)
	return schema.Block{Attributes: append(nodeBlock.Attributes[:len(nodeBlock.Attributes):len(nodeBlock.Attributes)], own.Attributes...), Blocks: own.Blocks}
}
