package plan

import (
	"cmp"
	"fmt"

	"github.com/npctl/npctl/resources"
)

// placement decides whether and where a node can be launched, for min_ready and for requests.
type placement struct {
	world          *world
	draft          *draft
	capacity       *capacity
	plannedUploads map[imageAt]string        // upload steps by image and provider, of images without validation
	tests          map[imageAt][]string      // steps with test nodes by image and provider
	loginUpdates   map[resources.Key]string  // uploads with a changed login, and the step that records it
	rollouts       map[imageAt]*rolloutShare // the nodes of images in a rollout, with the planned ones
	blockers       map[*poolOffer]*blocker   // results of offerBlocker
}

// placementOrder decides between two pools that could launch a node, for min_ready and for requests: first the lower
// priority (a pool without one has its provider's), then the larger share of free servers, then the name of the
// provider and of the pool.
func placementOrder(a, b *poolState, shareA, shareB float64) int {
	return cmp.Or(
		cmp.Compare(a.pool.Priority, b.pool.Priority),
		cmp.Compare(shareB, shareA),
		cmp.Compare(a.at.provider, b.at.provider),
		cmp.Compare(a.at.pool, b.at.pool),
	)
}

// best returns the first, in placementOrder, of the accepted offers with capacity for one more node, or nil.
func (pl *placement) best(places []*poolOffer, accept func(*poolOffer) bool) *poolOffer {
	var best *poolOffer
	for _, p := range places {
		if !accept(p) || pl.capacity.capacityBlocker(p) != nil {
			continue
		}
		if best == nil || placementOrder(p.poolState, best.poolState, pl.capacity.freeShare(p.poolState), pl.capacity.freeShare(best.poolState)) < 0 {
			best = p
		}
	}
	return best
}

// offerBlocker returns why the offer cannot launch nodes, regardless of capacity, or nil.
func (pl *placement) offerBlocker(at *poolOffer) *blocker {
	why, known := pl.blockers[at]
	if known {
		return why
	}
	ref := at.offer.Image
	boot, image := BootChoice{}, imageAt{ref.Name, at.at.provider}
	missing := ref.IsUploaded() && pl.plannedUploads[image] == "" && len(pl.tests[image]) == 0
	if missing {
		boot = pl.draft.boot(ref.Name, at.at.provider)
		missing = boot.Upload == nil
	}
	switch why = pl.poolBlocker(at); {
	case why != nil || !missing:
	case boot.Untested != nil:
		why = &blocker{text: fmt.Sprintf("image %s: build %s is not validated yet", ref, boot.Untested.Build)}
	case len(boot.Bad) > 0:
		why = &blocker{text: fmt.Sprintf("image %s: %s", ref, whyBad(boot.Bad[0]))}
	default:
		why = &blocker{text: fmt.Sprintf("image %s is missing and is not being uploaded", ref)}
	}
	pl.blockers[at] = why
	return why
}

// poolBlocker is like offerBlocker, regardless of the image.
func (pl *placement) poolBlocker(at *poolOffer) *blocker {
	if why := pl.world.unreachable(at.at.provider); why != nil {
		return why
	}
	return pl.world.breaker(at)
}

// imageOf makes the launch wait for the image: for the success of its upload if the provider has no usable one, else
// only for the end of the upload.
func (pl *placement) imageOf(s *Step, at *poolOffer) {
	ref := at.offer.Image
	if ref.Kind == resources.CloudImage {
		view, _ := pl.world.view(s.Provider)
		if image := view.CloudImages[ref.Name].Image; image.ID != "" {
			s.Evidence = append(s.Evidence, Fact{"image", fmt.Sprintf("%s (%s)", image.Name, image.ID)})
			s.Preconditions = append(s.Preconditions, Fingerprint{Subject: "provider." + s.Provider + ".cloud_image." + ref.Name,
				Digest: digest(image.ID)})
		}
		return
	}
	if !ref.IsUploaded() {
		return
	}
	coming, boot := pl.plannedUploads[imageAt{ref.Name, s.Provider}], pl.draft.boot(ref.Name, s.Provider)
	from := boot.Upload
	if r := boot.Rollout; r != nil && pl.takesNewer(imageAt{ref.Name, s.Provider}, r) {
		from = r.Upload
		s.Evidence = append(s.Evidence, Fact{"build", from.Build}, Fact{"rollout", r.text(pl.world.images[ref.Name].Rollout)})
	}
	if from != nil {
		s.Upload = from.ID
		if update := pl.loginUpdates[from.Key()]; update != "" {
			s.Needs = append(s.Needs, update)
		}
	}
	if boot.Pinned != nil {
		s.Evidence = append(s.Evidence, Fact{"pinned build", boot.Upload.Build})
		return
	}
	if boot.IsReturn() {
		s.Evidence = append(s.Evidence, Fact{"build", boot.Upload.Build}, Fact{"instead of build", boot.Bad[0].Build})
	}
	switch {
	case boot.Upload == nil && coming == "":
		s.Needs = append(s.Needs, pl.tests[imageAt{ref.Name, s.Provider}]...)
		if boot.Untested != nil {
			s.Upload = boot.Untested.ID
		}
	case coming == "":
	case boot.Upload == nil:
		s.Needs = append(s.Needs, coming)
	default:
		s.After = append(s.After, coming)
	}
}
