package plan

import (
	"strconv"

	"github.com/npctl/npctl/resources"
)

// recordPlanner plans changes of provider and image records.
type recordPlanner struct {
	world *world
	draft *draft
	leaks []leak
}

func planRecords(w *world, d *draft, leaks []leak) {
	rp := &recordPlanner{w, d, leaks}
	rp.forgetProviders()
	rp.protections()
}

// forgetProviders plans the removal of the records of providers that are no longer configured, after the last of our
// objects there is deleted.
func (rp *recordPlanner) forgetProviders() {
	for _, p := range rp.world.seen.Records.Providers {
		if rp.world.providers[p.Name] != nil {
			continue
		}
		if _, looked := rp.world.view(p.Name); !looked {
			continue
		}
		if needs, empty := rp.emptied(p.Name); empty {
			rp.draft.add(Step{ID: "forget provider " + p.Name, Address: ProviderAddress(p.Name), Action: ActionForget,
				Thing: ThingRecord, Reason: ReasonNothingLeft, Provider: p.Name, Record: p.Key(), Needs: needs})
		}
	}
}

// protections plans to record the prevent_destroy of the configuration: it must be known after the block is removed.
func (rp *recordPlanner) protections() {
	for _, r := range rp.world.seen.Records.Providers {
		if p := rp.world.providers[r.Name]; p != nil && p.PreventDestroy != r.PreventDestroy {
			rp.remember(r.Key(), ProviderAddress(r.Name), r.PreventDestroy, p.Source, Step{Provider: r.Name})
		}
	}
	for _, r := range rp.world.seen.Records.Images {
		if img := rp.world.images[r.Name]; img != nil && img.PreventDestroy != r.PreventDestroy {
			rp.remember(r.Key(), imageAddress(img.Kind, r.Name), r.PreventDestroy, img.Source, Step{Image: r.Name})
		}
	}
}

func (rp *recordPlanner) remember(key resources.Key, at Address, before bool, source resources.Source, s Step) {
	s.Address, s.Action, s.Thing, s.Reason, s.Record, s.Source = at, ActionUpdate, ThingRecord, ReasonConfigChanged, key, source
	s.Changes = []Change{{Attribute: "prevent_destroy", Before: strconv.FormatBool(before), After: strconv.FormatBool(!before)}}
	rp.draft.add(s)
}

// emptied reports whether this plan leaves none of our objects in a provider, and returns the steps that delete them.
func (rp *recordPlanner) emptied(provider string) (needs []string, empty bool) {
	var keys []resources.Key
	for _, n := range rp.world.nodes[provider] {
		keys = append(keys, n.Key())
	}
	for _, u := range rp.world.seen.Records.Uploads {
		if u.Provider == provider {
			keys = append(keys, u.Key())
		}
	}
	for _, key := range keys {
		id, gone := rp.draft.deletedBy[key]
		if !gone {
			return nil, false
		}
		needs = append(needs, id)
	}
	for _, s := range rp.leaks {
		id := string(ActionDelete) + " " + string(leakAddress(s))
		if s.provider != provider {
			continue
		}
		if _, planned := rp.draft.index[id]; !planned {
			return nil, false
		}
		needs = append(needs, id)
	}
	return needs, true
}
