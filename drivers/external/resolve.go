package external

import (
	"context"
	"errors"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// decodeOffer reads the configuration of an offer.
func decodeOffer(config cty.Value) (labelSettings, error) {
	var s labelSettings
	if err := schema.Decode(config, &s); err != nil {
		return s, rejectedf("%w", err)
	}
	return s, nil
}

// ResolveOffer implements drivers.Resolver. It compares the settings with their description; a program with the call
// resolve_offer then checks the names of the cloud.
func (c *cloud) ResolveOffer(ctx context.Context, config cty.Value) (resources.ResolvedOffer, []resources.Problem, error) {
	s, err := decodeOffer(config)
	if err != nil {
		return resources.ResolvedOffer{}, nil, err
	}
	if problems := c.checkLabel(s.Settings); len(problems) > 0 {
		return resources.ResolvedOffer{}, problems, nil
	}
	if !c.description.can(callResolve) {
		return resources.ResolvedOffer{Resources: resources.ResourceAmounts{Instances: 1}, Zones: s.Zones}, nil, nil
	}
	var offer resources.ResolvedOffer
	var problems []resources.Problem
	err = c.call(ctx, request{Call: callResolve, Offer: &offerJSON{s.Settings, s.Zones}}, func(got response) error {
		switch {
		case len(got.Problems) > 0:
			problems = c.mask.problems(problemsOf(got.Problems, s.Settings))
		case got.Offer == nil:
			return errors.New(`resolve_offer: the response has neither "offer" nor "problems"`)
		default:
			offer = got.Offer.offer(s.Zones)
		}
		return nil
	})
	return offer, problems, err
}

// offer converts the offer of a response; zones are those of the configuration.
func (r *resolvedJSON) offer(zones []string) resources.ResolvedOffer {
	offer := resources.ResolvedOffer{Flavor: r.Flavor, FlavorNames: r.Flavors, Resources: r.Resources, Zones: r.Zones}
	offer.Resources.Instances = max(offer.Resources.Instances, 1)
	if len(offer.Zones) == 0 {
		offer.Zones = zones
	}
	if len(offer.FlavorNames) == 0 && offer.Flavor != "" {
		offer.FlavorNames = []string{offer.Flavor}
	}
	return offer
}

// problemsOf converts problems of settings. The value is that of the setting unless the program states another one.
func problemsOf(wire []problemJSON, settings map[string]string) []resources.Problem {
	problems := make([]resources.Problem, 0, len(wire))
	for _, p := range wire {
		problem := resources.Problem{Attribute: "settings", Value: p.Value, Detail: p.Detail, Suggestions: p.Suggestions}
		if p.Setting != "" {
			problem.Detail = "setting " + p.Setting + ": " + p.Detail
		}
		if p.Value == "" {
			problem.Value = settings[p.Setting]
		}
		problems = append(problems, problem)
	}
	return problems
}

// ResolveImage implements drivers.Resolver. Labels name images in their settings.
func (c *cloud) ResolveImage(ctx context.Context, _ resources.CloudImageSpec) (resources.RemoteImage, []resources.Problem, error) {
	if err := ctx.Err(); err != nil {
		return resources.RemoteImage{}, nil, err
	}
	return resources.RemoteImage{}, nil, drivers.ErrNotSupported
}
