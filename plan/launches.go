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
		missing := label.MinReady - int64(c.readyCount[label.Name])
		if missing > 0 {
			c.fill(label, int(missing), free)
		}
	}
}

// fill launches missing nodes one by one, each with the best offer at that point.
func (c *computation) fill(label *resources.Label, missing int, free map[string]*resources.ResourceAmounts) {
	places, refusals, mistaken := c.candidateOffers(label)
	have := label.MinReady - int64(missing)
	for ; missing > 0; missing-- {
		at, old := c.nextLaunch(places, label.Name, free)
		if at == nil {
			break
		}
		c.launch(at, label, have, old, free)
	}
	if missing == 0 || mistaken || c.seen.LockHolder != nil {
		return // launched; or reported as a problem; or the other process may be creating the missing nodes
	}
	for _, p := range places {
		refusals = append(refusals, fmt.Sprintf("%s: %s", p.at, c.capacityBlocker(p, free)))
	}
	if len(refusals) == 0 {
		refusals = []string{"no pool offers it"}
	}
	c.note(Warning, "below-min-ready", Address("label."+label.Name), label.Source,
		"%d of %s of label %s cannot be launched: %s", missing, text.Count(label.MinReady, "node", "nodes"), label.Name, strings.Join(refusals, "; "))
}

// candidateOffers lists the offers of the label that can launch now, and why the others cannot. mistaken reports
// whether one of them has a problem in its configuration.
func (c *computation) candidateOffers(label *resources.Label) (places []*poolOffer, refusals []string, mistaken bool) {
	for _, s := range c.world.pools {
		at := c.offerIn(s, label.Name)
		if at == nil {
			continue
		}
		if len(at.problems) > 0 {
			mistaken = true
		} else if why := c.offerBlocker(at); why != "" {
			refusals = append(refusals, fmt.Sprintf("%s: %s", at.at, why))
		} else {
			places = append(places, at)
		}
	}
	return places, refusals, mistaken
}

// offerBlocker returns why the offer cannot launch nodes, or "". The images must be planned before.
func (c *computation) offerBlocker(at *poolOffer) string {
	if at.blocker == nil {
		why := c.findOfferBlocker(at)
		at.blocker = &why
	}
	return *at.blocker
}

func (c *computation) findOfferBlocker(at *poolOffer) string {
	if !c.reachable(at.at.provider) {
		return "the provider did not respond"
	}
	if why := c.breaker(at); why != "" {
		return why
	}
	if at.offer.Image.Kind == resources.CloudImage {
		return ""
	}
	key := imageAt{at.offer.Image.Name, at.at.provider}
	if c.plannedUploads[key] == "" && len(c.readyUploads(key.image, key.provider)) == 0 {
		return fmt.Sprintf("image %s is missing and is not being uploaded", at.offer.Image)
	}
	return ""
}

// breakerThreshold is the number of consecutive failed launches that stops all launches in a provider until the
// backoff ends.
const breakerThreshold = 5

// breaker returns why launches of the offer are postponed after failures, or "".
func (c *computation) breaker(at *poolOffer) string {
	offer := c.seen.LaunchFailures[OfferAddress(at.at.provider, at.at.pool, at.offer.Label)]
	whole := c.seen.LaunchFailures[ProviderAddress(at.provider.Name)]
	for _, f := range []*resources.Failure{offer, whole} {
		if f == nil || f == whole && f.Count < breakerThreshold || !c.inBackoff(f, launchBackoffAfter(f)) {
			continue
		}
		return fmt.Sprintf("launches have failed %s, the next attempt is after %s: %s", times(f.Count), clock(launchBackoffAfter(f).next(f)), f.Error)
	}
	return ""
}

// launch adds the step for one node, which replaces old unless old is nil.
func (c *computation) launch(at *poolOffer, label *resources.Label, have int64, old *replacedNode, free map[string]*resources.ResourceAmounts) {
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
	for len(use.frees) > 0 && c.needsRelease(at, use, free) {
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

// imageOf makes the launch wait for the image: for the success of its upload if the provider has no usable one, else
// only for the end of the upload.
func (c *computation) imageOf(s *Step, at *poolOffer) {
	ref := at.offer.Image
	if ref.Kind == resources.CloudImage {
		view, _ := c.view(s.Provider)
		if image := view.CloudImages[ref.Name].Image; image.ID != "" {
			s.Evidence = append(s.Evidence, Fact{"image", fmt.Sprintf("%s (%s)", image.Name, image.ID)})
			s.Preconditions = append(s.Preconditions, Fingerprint{Subject: "provider." + s.Provider + ".cloud_image." + ref.Name,
				Digest: digest(image.ID)})
		}
		return
	}
	coming, ready := c.plannedUploads[imageAt{ref.Name, s.Provider}], c.readyUploads(ref.Name, s.Provider)
	if len(ready) > 0 {
		s.Upload = ready[0].ID
		if update := c.loginUpdates[ready[0].Key()]; update != "" {
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
