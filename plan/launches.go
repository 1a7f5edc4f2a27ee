package plan

import (
	"fmt"
	"strings"

	"github.com/npctl/npctl/internal/text"
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
		if missing > 0 {
			c.fill(label, int(missing), free)
		}
	}
}

// fill launches missing nodes one by one, each in the best place there is at that moment.
func (c *computation) fill(label *resources.Label, missing int, free map[string]*resources.Amounts) {
	places, refusals, mistaken := c.places(label)
	have := label.MinReady - int64(missing)
	for ; missing > 0; missing-- {
		at, old := c.nextLaunch(places, label.Name, free)
		if at == nil {
			break
		}
		c.launch(at, label, have, old, free)
	}
	if missing == 0 || mistaken || c.seen.Worker != nil {
		return // launched; a problem says it already; or the other process may be about to make what is missing
	}
	for _, p := range places {
		refusals = append(refusals, fmt.Sprintf("%s: %s", p.at, c.refusal(p, free)))
	}
	if len(refusals) == 0 {
		refusals = []string{"no pool offers it"}
	}
	c.note(Warning, "below-min-ready", Address("label."+label.Name), label.Source,
		"%d of %s of label %s cannot be launched: %s", missing, text.Count(label.MinReady, "node", "nodes"), label.Name, strings.Join(refusals, "; "))
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

// launch adds the step for one node, which replaces old if there is one.
func (c *computation) launch(at *place, label *resources.Label, have int64, old *retiredNode, free map[string]*resources.Amounts) {
	at.launched++
	provider, pool := at.provider.Name, at.pool.Name
	use := c.pool(provider, pool)
	address := OfferAddress(provider, pool, label.Name)
	s := Step{ID: fmt.Sprintf("launch %s #%d", address, at.launched), Address: address, Action: ActionLaunch,
		Thing: ThingNode, Reason: ReasonBelowMinReady, Provider: provider, Pool: pool, Label: label.Name,
		Image: at.offer.Image.Name, Source: at.offer.Source, Estimate: c.launchEstimate(provider, label.Name),
		Evidence: []Fact{{"min_ready", fmt.Sprint(label.MinReady)}, {"ready", fmt.Sprint(have)}}}
	c.imageOf(&s, at)
	c.planLaunch(&s, at)
	if old != nil {
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
		if update := c.relogin[ready[0].Key()]; update != "" {
			s.Needs = append(s.Needs, update)
		}
	}
	switch {
	case coming == "":
	case len(ready) == 0:
		s.Needs = append(s.Needs, coming)
	default:
		s.After = append(s.After, coming)
	}
}
