package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/npctl/npctl/resources"
)

// launches fills every label up to its min_ready.
func (c *computation) launches() {
	if c.opt.RefreshOnly {
		return
	}
	free := c.free
	for i := range c.want.Labels {
		label := &c.want.Labels[i]
		missing := label.MinReady - int64(c.usable[label.Name])
		c.unchanged++
		if missing > 0 {
			c.unchanged--
			c.fill(label, int(missing), free)
		}
	}
}

// fill launches missing nodes one by one, each in the best place there is at that moment.
func (c *computation) fill(label *resources.Label, missing int, free map[string]*resources.Amounts) {
	places, refusals, mistaken := c.places(label)
	have := label.MinReady - int64(missing)
	for ; missing > 0; missing-- {
		best := c.best(places, free)
		if best == nil {
			break
		}
		c.launch(best, label, have, free)
	}
	if missing == 0 || mistaken {
		return // a problem says it already
	}
	for _, p := range places {
		refusals = append(refusals, fmt.Sprintf("%s: %s", p.at, c.refusal(p, free)))
	}
	if len(refusals) == 0 {
		refusals = []string{"no pool offers it"}
	}
	c.note(Warning, "below-min-ready", Address("label."+label.Name), label.Source,
		"%d of %d nodes of label %s cannot be launched: %s", missing, label.MinReady, label.Name, strings.Join(refusals, "; "))
}

// places lists the pools that offer the label and could launch it now, and why others cannot; mistaken reports whether
// one of them has a problem in its configuration.
func (c *computation) places(label *resources.Label) (places []*place, refusals []string, mistaken bool) {
	for _, s := range c.world.sites {
		at := c.placeOf(s, label.Name)
		if at == nil {
			continue
		}
		if len(at.problems) > 0 {
			mistaken = true
		} else if why := c.unable(at); why != "" {
			refusals = append(refusals, fmt.Sprintf("%s: %s", at.at, why))
		} else {
			places = append(places, at)
		}
	}
	return places, refusals, mistaken
}

// unable says why nothing can be launched there, or nothing. It is asked once the images are planned.
func (c *computation) unable(at *place) string {
	if at.obstacle == nil {
		why := c.obstacle(at)
		at.obstacle = &why
	}
	return *at.obstacle
}

func (c *computation) obstacle(at *place) string {
	if !c.reachable(at.at.provider) {
		return "the provider did not answer"
	}
	if why := c.breaker(at); why != "" {
		return why
	}
	if at.offer.Image.Kind == resources.CloudImage {
		return ""
	}
	key := imageAt{at.offer.Image.Name, at.at.provider}
	if c.coming[key] == "" && len(c.readyUploads(key.image, key.provider)) == 0 {
		return fmt.Sprintf("image %s is not there and is not being uploaded", at.offer.Image)
	}
	return ""
}

// breakAt is how many launches in a row have to fail before a whole provider is left alone for a while.
const breakAt = 5

// breaker says that launches there have failed and are not tried for now, or nothing.
func (c *computation) breaker(at *place) string {
	offer := c.seen.Launching[OfferAddress(at.at.provider, at.at.pool, at.offer.Label)]
	whole := c.seen.Launching[ProviderAddress(at.provider.Name)]
	for _, f := range []*resources.Failure{offer, whole} {
		if f == nil || f == whole && f.Count < breakAt || !c.waits(f, launchesAfter(f)) {
			continue
		}
		return fmt.Sprintf("launches have failed %s, the next try is after %s: %s", times(f.Count), clock(launchesAfter(f).until(f)), f.Error)
	}
	return ""
}

// best chooses by priority, then by the share of the pool that is free, then by name.
func (c *computation) best(places []*place, free map[string]*resources.Amounts) *place {
	var best *place
	for _, p := range places {
		if c.refusal(p, free) != nil {
			continue
		}
		if best == nil || c.before(p, best, free) {
			best = p
		}
	}
	return best
}

func (c *computation) before(a, b *place, free map[string]*resources.Amounts) bool {
	return cmp.Or(
		cmp.Compare(a.pool.Priority, b.pool.Priority),
		cmp.Compare(c.freeShare(b.site, free), c.freeShare(a.site, free)),
		cmp.Compare(a.provider.Name, b.provider.Name),
		cmp.Compare(a.pool.Name, b.pool.Name),
	) < 0
}

// launch adds the step for one node. A node that is to be replaced goes after its successor is ready where there is
// room for both, and before it is launched where there is not.
func (c *computation) launch(at *place, label *resources.Label, have int64, free map[string]*resources.Amounts) {
	at.launched++
	provider, pool := at.provider.Name, at.pool.Name
	use := c.pool(provider, pool)
	address := OfferAddress(provider, pool, label.Name)
	s := Step{ID: fmt.Sprintf("launch %s #%d", address, at.launched), Address: address, Action: ActionLaunch,
		Thing: ThingNode, Reason: ReasonBelowMinReady, Provider: provider, Pool: pool, Label: label.Name,
		Image: at.offer.Image.Name, Source: at.offer.Source, Estimate: c.launchEstimate(provider, label.Name),
		Evidence: []Fact{{"min_ready", fmt.Sprint(label.MinReady)}, {"ready", fmt.Sprint(have)}}}
	c.imageOf(&s, at)
	if old := c.nextRetired(label.Name, poolKey{provider, pool}); old != "" {
		c.replace(&s, old, at, use, free)
	}
	for len(use.frees) > 0 && c.full(at, use, free) {
		first := use.frees[0]
		s.Needs = append(s.Needs, first)
		use.claim(first)
		use.release(first, free[provider])
	}
	use.use = plus(use.use, at.each)
	if l := free[provider]; l != nil {
		*l = minus(*l, at.each)
	}
	c.add(s)
}

// nextRetired takes a node that a launch can replace: one of the same pool if there is one. Those that another launch
// waits for already are passed over.
func (c *computation) nextRetired(label string, here poolKey) string {
	c.retired[label] = slices.DeleteFunc(c.retired[label], func(r retiredNode) bool { return !slices.Contains(c.pools[r.pool].frees, r.step) })
	if len(c.retired[label]) == 0 {
		return ""
	}
	i := max(slices.IndexFunc(c.retired[label], func(r retiredNode) bool { return r.pool == here }), 0)
	next := c.retired[label][i]
	c.retired[label] = slices.Delete(c.retired[label], i, i+1)
	c.pools[next.pool].claim(next.step)
	return next.step
}

// replace pairs a launch with the removal of the node it replaces.
func (c *computation) replace(s *Step, old string, at *place, use *poolUse, free map[string]*resources.Amounts) {
	gone := c.step(old)
	s.Replaces, gone.Replaces = true, true
	s.Reason, s.Changes = gone.Reason, gone.Changes
	s.Evidence = append([]Fact{{"replaces", string(gone.Address)}}, s.Evidence...)
	_, here := use.freed[old]
	if here && c.full(at, use, free) {
		s.Needs = append(s.Needs, old)
		use.release(old, free[s.Provider])
	} else {
		gone.Needs = append(gone.Needs, s.ID)
	}
}

// imageOf makes the launch wait for the image: for its upload when nothing usable is there, and just until the upload
// has ended, however, when an older one would do.
func (c *computation) imageOf(s *Step, at *place) {
	ref := at.offer.Image
	if ref.Kind == resources.CloudImage {
		view, _ := c.view(s.Provider)
		if image := view.CloudImages[ref.Name].Image; image.ID != "" {
			s.Evidence = append(s.Evidence, Fact{"image", fmt.Sprintf("%s (%s)", image.Name, image.ID)})
			s.Touches = append(s.Touches, Fingerprint{Subject: "provider." + s.Provider + ".cloud_image." + ref.Name,
				Digest: digest(image.ID)})
		}
		return
	}
	coming, ready := c.coming[imageAt{ref.Name, s.Provider}], c.readyUploads(ref.Name, s.Provider)
	if len(ready) > 0 {
		s.Upload = ready[0].ID
	}
	switch {
	case coming == "":
	case len(ready) == 0:
		s.Needs = append(s.Needs, coming)
	default:
		s.After = append(s.After, coming)
	}
}
