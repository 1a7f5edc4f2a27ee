package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// completionSource finds the words for one kind of argument or value. value is what is typed of it.
type completionSource func(ctx context.Context, c *completion, value string) []candidate

// valueSources are those of options: for one command where that is named, else for all. Options that take files need none.
var valueSources = map[string]completionSource{
	"-target":          addressCandidates,
	"-exclude":         addressCandidates,
	"-replace":         replaceable,
	"-label":           labelNames,
	"-provider":        providerNames,
	"-pool":            poolNames,
	"-request":         records(resources.KindRequest),
	"-build":           records(resources.KindBuild),
	"-upload":          records(resources.KindUpload),
	"-subject":         subjects,
	"-var":             variableNames,
	"-log-level":       fixed("debug", "info", "warn", "error"),
	"-log-format":      fixed("text", "json"),
	"-allow-destroy":   fixed("none", "nodes", "images", "all"),
	"-serve":           fixed("nodes", "images"),
	"graph -type":      fixed("dot", "json"),
	"init -from":       fixed("sandbox", "openstack"),
	"node list -state": states(resources.KindNode), "node wait -state": states(resources.KindNode),
	"request list -state": states(resources.KindRequest),
}

// argumentSources are those of arguments, by command.
var argumentSources = map[string]completionSource{
	"apply": single(files), "show": single(files), "fmt": files, "state push": single(files),
	"image show": imageNames, "image log": imageNames, "image build": imageNames, "image upload": imageNames,
	"image delete": imageNames, "image pause": imageNames, "image unpause": imageNames,
	"node show": records(resources.KindNode), "node hold": records(resources.KindNode), "node release": records(resources.KindNode),
	"node delete": records(resources.KindNode), "node return": records(resources.KindNode), "node renew": records(resources.KindNode),
	"node wait": records(resources.KindNode), "request show": records(resources.KindRequest),
	"request cancel": records(resources.KindRequest), "request wait": records(resources.KindRequest),
	"request take": records(resources.KindRequest),
	"freeze":       freezable, "thaw": freezable, "why": single(subjects),
	"state list": recordAddresses, "state show": recordAddresses, "state rm": recordAddresses,
	"completion": single(fixed("bash", "zsh", "fish")),
}

// single is for commands with one argument.
func single(source completionSource) completionSource {
	return func(ctx context.Context, c *completion, value string) []candidate {
		if len(c.args) > 0 {
			return nil
		}
		return source(ctx, c, value)
	}
}

func fixed(words ...string) completionSource {
	return func(context.Context, *completion, string) []candidate { return named("", words) }
}

func states(kind resources.Kind) completionSource {
	return func(_ context.Context, _ *completion, value string) []candidate {
		given := value[:strings.LastIndexByte(value, ',')+1]
		var all []candidate
		for _, s := range resources.StatesOf(kind) {
			all = append(all, candidate{text: given + string(s)})
		}
		return all
	}
}

func named(about string, names []string) []candidate {
	all := make([]candidate, len(names))
	for i, name := range names {
		all[i] = candidate{name, about}
	}
	return all
}

// desired is the configuration; of one that cannot be understood, the names that its blocks have as text.
func (c *completion) desired() resources.Desired {
	config, err := c.app.load(c.vars)
	if err == nil {
		return config.Desired
	}
	var wrong *diagnosed
	if !errors.As(err, &wrong) {
		return resources.Desired{}
	}
	return namesIn(wrong.files)
}

// namesIn reads the labels of blocks.
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

// topBlocks are the blocks with a label of all files, sorted by file.
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

// recordsTime is how long the state may take, so that the names of the configuration are offered when it does not answer.
const recordsTime = completionTime * 7 / 10

// recorded is what the state holds.
func (c *completion) recorded(ctx context.Context, kinds ...resources.Kind) (r plan.Records) {
	ctx, cancel := context.WithTimeout(ctx, recordsTime)
	defer cancel()
	place, err := c.app.findState()
	if err != nil {
		return r
	}
	store, err := c.app.openExisting(ctx, place, true)
	if err != nil {
		return r
	}
	defer store.Close() //nolint:errcheck // only read
	entries, err := store.List(ctx, kinds...)
	if err != nil {
		return r
	}
	for _, e := range entries {
		r.Put(e.Record, uint64(e.Revision))
	}
	return r
}

func addressCandidates(ctx context.Context, c *completion, _ string) []candidate {
	known := knownAddresses(c.desired(), plan.Observed{Records: c.recorded(ctx, livingKinds...)})
	slices.Sort(known)
	return named("", known)
}

// replaceable are the addresses that -replace takes.
func replaceable(ctx context.Context, c *completion, _ string) []candidate {
	var all []candidate
	for _, one := range addressCandidates(ctx, c, "") {
		parts := strings.Split(one.text, ".")
		if parts[0] == "diskimage" || parts[0] == "node" || len(parts) == 4 && parts[2] == "image" {
			all = append(all, one)
		}
	}
	return all
}

func recordAddresses(ctx context.Context, c *completion, _ string) []candidate {
	r := c.recorded(ctx, livingKinds...)
	var all []candidate
	for _, b := range r.Builds {
		all = append(all, candidate{recordAddress(b), string(b.State)})
	}
	for _, u := range r.Uploads {
		all = append(all, candidate{recordAddress(u), string(u.State)})
	}
	for _, n := range r.Nodes {
		all = append(all, candidate{recordAddress(n), nodeAbout(n)})
	}
	return c.without(all)
}

// without leaves out what was given already.
func (c *completion) without(all []candidate) []candidate {
	return keepOf(all, func(one candidate) bool { return !slices.Contains(c.args, one.text) })
}

func nodeAbout(n *resources.Node) string {
	return string(n.State) + " " + words(n.Labels) + " in " + n.Provider + "/" + n.Pool
}

// records are the ids of one kind.
func records(kind resources.Kind) completionSource {
	return func(ctx context.Context, c *completion, _ string) []candidate {
		r := c.recorded(ctx, kind)
		var all []candidate
		for _, b := range r.Builds {
			all = append(all, candidate{b.ID, string(b.State) + " build of " + b.Image})
		}
		for _, u := range r.Uploads {
			all = append(all, candidate{u.ID, string(u.State) + " upload of " + u.Image + " to " + u.Provider})
		}
		for _, n := range r.Nodes {
			all = append(all, candidate{n.ID, nodeAbout(n)})
		}
		for _, q := range r.Requests {
			all = append(all, candidate{q.ID, string(q.State) + " request for " + words(q.Labels)})
		}
		return c.without(all)
	}
}

func labelNames(_ context.Context, c *completion, _ string) []candidate {
	var all []candidate
	for _, l := range c.desired().Labels {
		all = append(all, candidate{l.Name, "label"})
	}
	return all
}

func providerNames(_ context.Context, c *completion, _ string) []candidate {
	var all []candidate
	for _, p := range c.desired().Providers {
		all = append(all, candidate{p.Name, cmp.Or(p.Driver, "provider")})
	}
	return c.without(all)
}

// freezable are providers and images.
func freezable(_ context.Context, c *completion, _ string) []candidate {
	want := c.desired()
	var all []candidate
	for _, p := range want.Providers {
		all = append(all, candidate{p.Name, "provider"})
	}
	for _, i := range want.Images {
		all = append(all, candidate{"image/" + i.Name, string(i.Kind)})
	}
	return c.without(all)
}

func poolNames(_ context.Context, c *completion, _ string) []candidate {
	var all []candidate
	for _, p := range c.desired().Providers {
		for _, pool := range p.Pools {
			all = append(all, candidate{pool.Name, "pool"})
		}
	}
	return all
}

// imageNames are those of the configuration and of what is recorded.
func imageNames(ctx context.Context, c *completion, _ string) []candidate {
	var all []candidate
	for _, i := range c.desired().Images {
		all = append(all, candidate{i.Name, string(i.Kind)})
	}
	r := c.recorded(ctx, resources.KindBuild, resources.KindUpload)
	for _, b := range r.Builds {
		all = append(all, candidate{b.Image, "recorded"})
	}
	for _, u := range r.Uploads {
		all = append(all, candidate{u.Image, "recorded"})
	}
	return c.without(all)
}

// subjects are what npctl why and npctl events -subject take.
func subjects(ctx context.Context, c *completion, _ string) []candidate {
	var all []candidate
	want := c.desired()
	for _, l := range want.Labels {
		all = append(all, candidate{"label/" + l.Name, ""})
	}
	for _, i := range want.Images {
		all = append(all, candidate{"image/" + i.Name, ""})
	}
	for _, p := range want.Providers {
		all = append(all, candidate{"provider/" + p.Name, ""})
	}
	r := c.recorded(ctx, resources.KindNode, resources.KindRequest)
	for _, n := range r.Nodes {
		all = append(all, candidate{"node/" + n.ID, nodeAbout(n)})
	}
	for _, q := range r.Requests {
		all = append(all, candidate{"request/" + q.ID, string(q.State) + " request for " + words(q.Labels)})
	}
	return all
}

// variableNames are those of the variables that the configuration declares.
func variableNames(_ context.Context, c *completion, _ string) []candidate {
	var sources map[string]*hcl.File
	config, err := c.app.load(c.vars)
	var wrong *diagnosed
	switch {
	case err == nil:
		sources = config.Files
	case errors.As(err, &wrong):
		sources = wrong.files
	}
	var all []candidate
	for _, block := range topBlocks(sources) {
		if block.Type == "variable" {
			all = append(all, candidate{block.Labels[0] + "=", "variable"})
		}
	}
	return all
}
