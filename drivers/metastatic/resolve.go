package metastatic

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// ResolveOffer implements drivers.Resolver.
func (c *Cloud) ResolveOffer(ctx context.Context, config cty.Value) (resources.ResolvedOffer, []resources.Problem, error) {
	offer := resources.ResolvedOffer{Resources: resources.ResourceAmounts{Instances: 1}}
	s, err := settingsOf(config)
	if err != nil {
		return offer, []resources.Problem{{Attribute: "max_age", Value: s.MaxAge.String(), Detail: err.Error()}}, nil //nolint:nilerr // a problem of the configuration
	}
	offer.Flavor = fmt.Sprintf("slot on %s", s.BackingLabel)
	if problem := c.labelProblem(ctx, s.BackingLabel); problem != nil {
		return offer, []resources.Problem{*problem}, ctx.Err()
	}
	f, err := c.fleet(ctx)
	if err != nil {
		return offer, nil, err
	}
	where := "request a node with label " + s.BackingLabel
	if free, found := f.choose(s, true, c.now()); found {
		where = f.backing[free.request].place()
	} else if !c.env.Nodes.Serving() {
		where += ", which needs npctl watch"
	}
	offer.Values = map[string]string{"backing_node": strconv.Quote(where)}
	return offer, nil, ctx.Err()
}

// place describes a backing node for a plan.
func (b *backing) place() string {
	if b.nodeID == "" {
		return "the node of request " + b.request
	}
	return "node " + b.nodeID
}

// ResolveImage implements drivers.Resolver. The driver has no images.
func (*Cloud) ResolveImage(ctx context.Context, spec resources.CloudImageSpec) (resources.RemoteImage, []resources.Problem, error) {
	return resources.RemoteImage{}, []resources.Problem{{Attribute: "image", Value: spec.Name, Detail: "driver metastatic has no images"}}, ctx.Err()
}

// labelProblem returns why no backing node can have the label, or nil.
func (c *Cloud) labelProblem(ctx context.Context, backing string) *resources.Problem {
	problem := &resources.Problem{Attribute: "backing_label", Value: backing}
	offered, err := c.env.Nodes.Labels(ctx)
	kinds := offered[backing]
	switch {
	case err != nil:
		problem.Detail = err.Error()
	case len(kinds) == 0:
		others := slices.Sorted(maps.Keys(offered))
		others = slices.DeleteFunc(others, func(label string) bool { return slices.Contains(offered[label], c.kind) })
		problem.Detail = fmt.Sprintf("no pool offers label %s", backing)
		if near := text.Nearest(backing, others); near != "" {
			problem.Suggestions = []string{near}
		}
	case slices.Contains(kinds, c.kind):
		problem.Detail = fmt.Sprintf("label %s is itself offered by a metastatic provider", backing)
	default:
		return nil
	}
	return problem
}
