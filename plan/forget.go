package plan

import (
	"strconv"

	"github.com/npctl/npctl/resources"
)

// forgetProviders plans the removal of the records of providers that are no longer configured, after the last of our
// objects there is deleted.
func (c *computation) forgetProviders() {
	for _, p := range c.seen.Records.Providers {
		if c.world.providers[p.Name] != nil {
			continue
		}
		if _, looked := c.view(p.Name); !looked {
			continue
		}
		if needs, empty := c.emptied(p.Name); empty {
			c.add(Step{ID: "forget provider " + p.Name, Address: ProviderAddress(p.Name), Action: ActionForget,
				Thing: ThingRecord, Reason: ReasonNothingLeft, Provider: p.Name, Record: p.Key(), Needs: needs})
		}
	}
}

// protections plans to record the prevent_destroy of the configuration: it must be known after the block is removed.
func (c *computation) protections() {
	for _, r := range c.seen.Records.Providers {
		if p := c.world.providers[r.Name]; p != nil && p.PreventDestroy != r.PreventDestroy {
			c.remember(r.Key(), ProviderAddress(r.Name), r.PreventDestroy, p.Source, Step{Provider: r.Name})
		}
	}
	for _, r := range c.seen.Records.Images {
		if img := c.world.images[r.Name]; img != nil && img.PreventDestroy != r.PreventDestroy {
			c.remember(r.Key(), imageAddress(img.Kind, r.Name), r.PreventDestroy, img.Source, Step{Image: r.Name})
		}
	}
}

func (c *computation) remember(key resources.Key, at Address, before bool, source resources.Source, s Step) {
	s.Address, s.Action, s.Thing, s.Reason, s.Record, s.Source = at, ActionUpdate, ThingRecord, ReasonConfigChanged, key, source
	s.Changes = []Change{{Attribute: "prevent_destroy", Before: strconv.FormatBool(before), After: strconv.FormatBool(!before)}}
	c.add(s)
}

// emptied reports whether this plan leaves none of our objects in a provider, and returns the steps that delete them.
func (c *computation) emptied(provider string) (needs []string, empty bool) {
	var keys []resources.Key
	for _, n := range c.world.nodes[provider] {
		keys = append(keys, n.Key())
	}
	for _, u := range c.seen.Records.Uploads {
		if u.Provider == provider {
			keys = append(keys, u.Key())
		}
	}
	for _, key := range keys {
		id, gone := c.deletedBy[key]
		if !gone {
			return nil, false
		}
		needs = append(needs, id)
	}
	for _, s := range c.world.leaks {
		id := string(ActionDelete) + " " + string(leakAddress(s))
		if s.provider != provider {
			continue
		}
		if _, planned := c.index[id]; !planned {
			return nil, false
		}
		needs = append(needs, id)
	}
	return needs, true
}
