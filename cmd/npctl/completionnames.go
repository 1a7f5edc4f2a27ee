package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// single returns ask for a command with one argument: it has no candidates for a second one.
func single(ask source) source {
	return func(ctx context.Context, c *completion, value string) []candidate {
		if len(c.Args) > 0 {
			return nil
		}
		return ask(ctx, c, value)
	}
}

func states(kind resources.Kind) source { return listed(resources.StatesOf(kind)) }

// listed is for options that take names separated by commas.
func listed[S ~string](names []S) source {
	return func(_ context.Context, _ *completion, value string) []candidate {
		given := value[:strings.LastIndexByte(value, ',')+1]
		return candidates(names, func(s S) candidate { return candidate{Text: given + string(s)} })
	}
}

// candidates returns the candidate for each element of a list.
func candidates[T any](list []T, of func(T) candidate) []candidate {
	all := make([]candidate, len(list))
	for i, one := range list {
		all[i] = of(one)
	}
	return all
}

func named(names []string) []candidate {
	return candidates(names, func(name string) candidate { return candidate{Text: name} })
}

// read returns the configuration and its files. If the configuration has errors, read returns the names that the labels
// of its blocks contain.
func (c *completion) read() (resources.Desired, map[string]*hcl.File) {
	config, err := c.app.load(c.vars)
	if err == nil {
		return config.Desired, config.Files
	}
	if wrong, ok := errors.AsType[*diagnosed](err); ok {
		return namesIn(wrong.files), wrong.files
	}
	return resources.Desired{}, nil
}

func (c *completion) desired() resources.Desired {
	want, _ := c.read()
	return want
}

// namesIn returns the names in the labels of blocks.
func namesIn(sources map[string]*hcl.File) (d resources.Desired) {
	for _, block := range topBlocks(sources) {
		name := block.Labels[len(block.Labels)-1] // provider "DRIVER" "NAME"
		switch block.Type {
		case "label":
			d.Labels = append(d.Labels, resources.Label{Name: name})
		case string(resources.DiskImage), string(resources.ZuulImage):
			d.Images = append(d.Images, resources.Image{Name: name, Kind: resources.ImageKind(block.Type)})
		case "provider":
			p := resources.Provider{Name: name}
			for _, inner := range block.Body.Blocks {
				if inner.Type == "pool" && len(inner.Labels) > 0 {
					p.Pools = append(p.Pools, resources.Pool{Name: inner.Labels[0]})
				}
			}
			d.Providers = append(d.Providers, p)
		}
	}
	return d
}

// topBlocks returns the blocks of all files that have a label, sorted by file.
func topBlocks(sources map[string]*hcl.File) []*hclsyntax.Block {
	var blocks []*hclsyntax.Block
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		body, ok := sources[name].Body.(*hclsyntax.Body)
		if !ok {
			continue
		}
		for _, block := range body.Blocks {
			if len(block.Labels) > 0 {
				blocks = append(blocks, block)
			}
		}
	}
	return blocks
}

// recordsTime limits the time to read the state, so that completion offers the names of the configuration even if the
// state does not respond.
const recordsTime = 700 * time.Millisecond

// recorded returns the records of the state, or none if the state cannot be read.
func (c *completion) recorded(ctx context.Context, kinds ...resources.Kind) (r plan.Records) {
	ctx, cancel := context.WithTimeout(ctx, recordsTime)
	defer cancel()
	r, _ = c.app.storedRecords(ctx, kinds...) // the command reports the error
	return r
}

func addressCandidates(ctx context.Context, c *completion, _ string) []candidate {
	known := knownAddresses(c.desired(), c.recorded(ctx, livingKinds...), nil)
	slices.Sort(known)
	return named(known)
}

// replaceCandidates returns the addresses that -replace accepts.
func replaceCandidates(ctx context.Context, c *completion, value string) []candidate {
	return keepOf(addressCandidates(ctx, c, value), func(one candidate) bool { return replaceable(one.Text) })
}

// recordCandidates returns a candidate for each record of these kinds.
func (c *completion) recordCandidates(ctx context.Context, text func(resources.Record) string, kinds ...resources.Kind) []candidate {
	r := c.recorded(ctx, kinds...)
	return slices.Concat(
		candidates(r.Builds, func(b *resources.Build) candidate {
			return candidate{Text: text(b), About: string(b.State) + " build of " + b.Image}
		}),
		candidates(r.Uploads, func(u *resources.Upload) candidate {
			return candidate{Text: text(u), About: string(u.State) + " upload of " + u.Image + " to " + u.Provider}
		}),
		candidates(r.Nodes, func(n *resources.Node) candidate {
			return candidate{Text: text(n), About: string(n.State) + " " + words(n.Labels) + " in " + n.Provider + "/" + n.Pool}
		}),
		candidates(r.Requests, func(q *resources.Request) candidate {
			return candidate{Text: text(q), About: string(q.State) + " request for " + words(q.Labels)}
		}))
}

func recordAddresses(ctx context.Context, c *completion, _ string) []candidate {
	found := c.recordCandidates(ctx, recordAddress, livingKinds...)
	for i := range found {
		if !strings.HasPrefix(found[i].Text, "node.") { // the address of a build or upload names its image and provider
			found[i].About, _, _ = strings.Cut(found[i].About, " ")
		}
	}
	return c.without(found)
}

// without removes the candidates that are already arguments.
func (c *completion) without(all []candidate) []candidate {
	return keepOf(all, func(one candidate) bool { return !slices.Contains(c.Args, one.Text) })
}

// records returns a source of the IDs of one kind.
func records(kind resources.Kind) source {
	return func(ctx context.Context, c *completion, _ string) []candidate {
		return c.without(c.recordCandidates(ctx, func(r resources.Record) string { return r.Key().ID }, kind))
	}
}

func labelNames(_ context.Context, c *completion, _ string) []candidate {
	return candidates(c.desired().Labels, func(l resources.Label) candidate { return candidate{Text: l.Name, About: "label"} })
}

func providerNames(_ context.Context, c *completion, _ string) []candidate {
	return c.without(candidates(c.desired().Providers, func(p resources.Provider) candidate {
		return candidate{Text: p.Name, About: cmp.Or(p.Driver, "provider")}
	}))
}

// freezable returns providers and images.
func freezable(_ context.Context, c *completion, _ string) []candidate {
	want := c.desired()
	return c.without(append(
		candidates(want.Providers, func(p resources.Provider) candidate { return candidate{Text: p.Name, About: "provider"} }),
		candidates(want.Images, func(i resources.Image) candidate { return candidate{Text: "image/" + i.Name, About: string(i.Kind)} })...))
}

func poolNames(_ context.Context, c *completion, _ string) (all []candidate) {
	for _, p := range c.desired().Providers {
		all = append(all, candidates(p.Pools, func(pool resources.Pool) candidate { return candidate{Text: pool.Name, About: "pool"} })...)
	}
	return all
}

// imageNames returns the names of the images that are configured or recorded.
func imageNames(ctx context.Context, c *completion, _ string) []candidate {
	want := c.desired()
	r := c.recorded(ctx, resources.KindBuild, resources.KindUpload)
	return c.without(slices.Concat(
		candidates(want.Images, func(i resources.Image) candidate { return candidate{Text: i.Name, About: string(i.Kind)} }),
		candidates(r.Builds, func(b *resources.Build) candidate { return candidate{Text: b.Image, About: "recorded"} }),
		candidates(r.Uploads, func(u *resources.Upload) candidate { return candidate{Text: u.Image, About: "recorded"} })))
}

// subjects returns the subjects that npctl why and npctl events -subject accept.
func subjects(ctx context.Context, c *completion, _ string) []candidate {
	want := c.desired()
	return slices.Concat(
		candidates(want.Labels, func(l resources.Label) candidate { return candidate{Text: "label/" + l.Name} }),
		candidates(want.Images, func(i resources.Image) candidate { return candidate{Text: "image/" + i.Name} }),
		candidates(want.Providers, func(p resources.Provider) candidate { return candidate{Text: "provider/" + p.Name} }),
		c.recordCandidates(ctx, func(r resources.Record) string { return r.Key().String() }, resources.KindNode, resources.KindRequest))
}

// blockNames returns a source of the names of blocks of one type, which the configuration declares, with a suffix.
func blockNames(kind, suffix string) source {
	return func(_ context.Context, c *completion, _ string) []candidate {
		_, sources := c.read()
		blocks := keepOf(topBlocks(sources), func(b *hclsyntax.Block) bool { return b.Type == kind })
		return candidates(blocks, func(b *hclsyntax.Block) candidate { return candidate{Text: b.Labels[0] + suffix, About: kind} })
	}
}
