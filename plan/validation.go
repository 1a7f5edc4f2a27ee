package plan

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// IsValidated reports whether nodes other than test nodes may boot from an upload of an image with a validate block. t is its
// trial, or nil. Uploads that have launched nodes before the image had the block are validated, as are those of other builders.
func IsValidated(u *resources.Upload, t *resources.Trial) bool {
	return u.Hash == "" || isProven(t)
}

// BootChoice selects the upload from which nodes of an image boot in a provider. img and p are nil if they are not configured. ready
// are the ready uploads, the newest build first.
func (ts Trials) BootChoice(img *resources.Image, p *resources.Provider, ready []*resources.Upload) BootChoice {
	limit := RevertLimit(img, p)
	if img == nil || img.Validate == nil {
		return ts.withRollout(ts.Choose(ready, limit), img, ready, limit)
	}
	var usable []*resources.Upload
	var untested *resources.Upload
	settled := false // a newer upload is in use or can be
	for _, u := range ready {
		t := ts.Of(u)
		switch {
		case t.Rejected != nil:
			usable = append(usable, u) // so that the choice names it
		case IsValidated(u, &t), t.Pinned != nil:
			usable, settled = append(usable, u), true
		case untested == nil && !settled:
			untested = u
		}
	}
	c := ts.withRollout(ts.Choose(usable, limit), img, usable, limit)
	c.Untested = untested
	return c
}

// CountTest returns the trial of an upload after another test node: cause is nil if it has succeeded, otherwise an error that the
// image may have caused. It changes no trial of ts.
func (ts Trials) CountTest(u *resources.Upload, by Tester, cause error) *resources.Trial {
	if cause != nil {
		t := ts.Count(u, by.Now, cause, by.Rule.Attempts)[0]
		if t.Failures >= by.Rule.Attempts && !ts.isOutage(t, by.Rule.Attempts) {
			t.Rejected = &resources.Decision{Time: by.Now, Actor: resources.ValidationActor, Reason: FirstLine(cause.Error())}
		}
		return t
	}
	t := ts.Of(u)
	if t.Passed++; t.Passed >= by.Rule.Nodes && t.Rejected == nil {
		t.Validated = by.Now
		t.ForgetFailures()
	}
	return &t
}

// Tester is the rule of a validation and the time of a result.
type Tester struct {
	Rule *resources.Validation
	Now  time.Time
}

// validationPlanner launches the test nodes of uploads that are not validated yet. It runs before the launches for requests and
// min_ready, so that a full pool does not keep a new build from its test.
type validationPlanner struct {
	world     *world
	draft     *draft
	capacity  *capacity
	placement *placement
	images    *imagePlanner
}

func planValidation(w *world, d *draft, use *capacity, place *placement, images *imagePlanner) {
	if w.opt.RefreshOnly || w.opt.Destroy {
		return
	}
	vp := &validationPlanner{world: w, draft: d, capacity: use, placement: place, images: images}
	for i := range w.want.Images {
		img := &w.want.Images[i]
		if img.Validate == nil {
			continue
		}
		for _, p := range images.users(img) {
			vp.upload(img, p)
		}
	}
}

// upload plans the test nodes of the newest upload to be tested: the planned one or, without it, a ready one.
func (vp *validationPlanner) upload(img *resources.Image, p *resources.Provider) {
	at := imageAt{img.Name, p.Name}
	coming, boot := vp.images.plannedUploads[at], vp.draft.boot(img.Name, p.Name)
	delete(vp.placement.plannedUploads, at) // launches wait for the validation of a new upload
	u := boot.Untested
	if coming != "" {
		u = nil
	}
	if boot.Pinned != nil || coming == "" && u == nil || !vp.world.reachable(p.Name) {
		return
	}
	offers := vp.offers(img, p)
	if len(offers) == 0 {
		return // no node boots from it
	}
	step := Step{Address: uploadAddress(p.Name, img.Name), Kind: KindValidate, Reason: ReasonNotValidated, Image: img.Name, Provider: p.Name, Source: img.Source}
	passed, running := 0, 0
	if u != nil {
		step.Upload, step.Build = u.ID, u.Build
		if t := vp.world.trials[at][u.ID]; t != nil {
			passed, step.Evidence = t.Passed, testEvidence(t)
		}
		running = vp.draft.testing(u)
	} else {
		step.Needs = []string{coming}
	}
	if running > 0 {
		vp.draft.note(Info, "validating", step.Address, img.Source, "%s of build %s of %s in %s; %s", text.Count(running, "test node", "test nodes"), u.Build, img.Name, p.Name, usedMeanwhile(boot))
	}
	for n := passed + running + 1; n <= img.Validate.Nodes; n++ {
		offer := vp.placement.best(offers, func(at *poolOffer) bool { return vp.placement.poolBlocker(at) == nil })
		if offer == nil {
			why := vp.placement.poolBlocker(offers[0])
			if why == nil {
				why = vp.capacity.capacityBlocker(offers[0])
			}
			vp.draft.note(Warning, "validation-waits", step.Address, img.Source, "the new build of %s in %s waits for a test node: %s", img.Name, p.Name, why)
			return
		}
		vp.place(step, n, offer)
	}
}

// usedMeanwhile says from which build nodes boot during a validation.
func usedMeanwhile(boot BootChoice) string {
	if boot.Upload == nil {
		return "no other build is validated, so launches wait"
	}
	return "nodes boot from build " + boot.Upload.Build + " until it is validated"
}

func testEvidence(t *resources.Trial) []Fact {
	var facts []Fact
	if t.Passed > 0 {
		facts = append(facts, Fact{"succeeded", strconv.Itoa(t.Passed)})
	}
	if t.Failures > 0 {
		facts = append(facts, Fact{"failed", times(t.Failures)}, Fact{"last error", FirstLine(t.Error)})
	}
	return facts
}

// place adds the step of one test node.
func (vp *validationPlanner) place(step Step, number int, offer *poolOffer) {
	step.ID = fmt.Sprintf("validate %s #%d", step.Address, number)
	step.Pool, step.Label, step.Needs = offer.pool.Name, offer.offer.Label, slices.Clone(step.Needs)
	step.Estimate = vp.world.estimate("launch/" + step.Provider + "/" + step.Label)
	planLaunch(vp.world, &step, offer, nil)
	vp.capacity.take(&step, offer)
	id, use := vp.draft.add(step), vp.capacity.pool(step.Provider, step.Pool)
	use.willFree(id, offer.each) // the step deletes its node
	at := imageAt{step.Image, step.Provider}
	vp.placement.tests[at] = append(vp.placement.tests[at], id)
}

// offers lists the offers of a provider that test nodes may have: those of the label of the block, or else all with the image.
func (vp *validationPlanner) offers(img *resources.Image, p *resources.Provider) (found []*poolOffer) {
	for _, s := range vp.world.pools {
		if s.provider != p {
			continue
		}
		for i := range s.pool.Offers {
			at := s.offers[s.pool.Offers[i].Label]
			if at != nil && at.offer.Image == img.Ref() && len(at.problems) == 0 {
				found = append(found, at)
			}
		}
	}
	labeled := slices.DeleteFunc(slices.Clone(found), func(at *poolOffer) bool { return at.offer.Label != img.Validate.Label })
	if len(labeled) > 0 {
		return labeled
	}
	return found
}

// testing counts the test nodes of an upload that are being launched.
func (d *draft) testing(u *resources.Upload) (n int) {
	for _, node := range d.world.nodes[u.Provider] {
		launching := node.State == resources.StateInit || node.State == resources.StateBuilding
		if node.Validates == u.ID && launching && d.deletedBy[node.Key()] == "" {
			n++
		}
	}
	return n
}
