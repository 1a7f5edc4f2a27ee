package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// outageSlack is the time around the failed launches from an upload in which failures from an older one show that not the
// image is the cause.
const outageSlack = 10 * time.Minute

// Trials are the trials of the uploads of an image in a provider, by upload ID.
type Trials map[string]*resources.Trial

// TrialsOf returns the trials of an image in a provider.
func TrialsOf(r Records, image, provider string) Trials {
	trials := Trials{}
	for _, u := range r.Uploads {
		if u.Image == image && u.Provider == provider {
			trials.add(u, r)
		}
	}
	return trials
}

// add adds the trial of an upload, if it has one.
func (ts Trials) add(u *resources.Upload, r Records) {
	for _, id := range append([]string{u.ID}, u.Former...) {
		if t, ok := r.Get(resources.Key{Kind: resources.KindTrial, ID: id}).(*resources.Trial); ok {
			one := *t
			one.Upload = u.ID
			ts[u.ID] = &one
			return
		}
	}
}

// Of returns a copy of the trial of an upload, or an empty one.
func (ts Trials) Of(u *resources.Upload) resources.Trial {
	if t := ts[u.ID]; t != nil {
		return *t
	}
	return resources.Trial{Upload: u.ID, Build: u.Build}
}

// RevertLimit returns the number of launches in a row that have to fail before launches in a provider return to an older
// build of the image, or 0 if they never do.
func RevertLimit(img *resources.Image, p *resources.Provider) int {
	if img == nil || p == nil || !img.AutoRevert {
		return 0
	}
	return max(int(p.LaunchAttempts), 1)
}

// BootChoice is the upload from which nodes boot.
type BootChoice struct {
	Upload *resources.Upload // nil without a ready upload that is not rejected
	// Bad are the trials of uploads that are rejected or from which launches fail, the newest first: of newer uploads than Upload,
	// and of Upload itself if there is no older one to return to.
	Bad []*resources.Trial
	// Pinned is the trial of Upload if a person has pinned it. Bad is empty then.
	Pinned *resources.Trial
	// Rollout is set while only a part of the nodes boots from a newer upload than Upload.
	Rollout *Rollout
	// Untested is the newest upload that has to be validated before nodes boot from it, if it is newer than Upload.
	Untested *resources.Upload
}

// IsReturn reports whether nodes do not boot from the newest ready upload.
func (c BootChoice) IsReturn() bool {
	return c.Upload != nil && len(c.Bad) > 0 && c.Bad[0].Upload != c.Upload.ID
}

// Choose selects the upload from which nodes boot. ready are the ready uploads of the image in the provider, the newest build
// first. The first one is used, without the rejected ones, unless limit launches in a row from it have failed. Then the choice
// is the next one with a successful launch and without such failures, if any. A pinned one is used in any case.
func (ts Trials) Choose(ready []*resources.Upload, limit int) (c BootChoice) {
	for _, u := range ready {
		if t := ts[u.ID]; t != nil && t.Pinned != nil {
			return BootChoice{Upload: u, Pinned: t}
		}
	}
	for _, u := range ready {
		t := ts[u.ID]
		switch {
		case t != nil && t.Rejected != nil:
			c.Bad = append(c.Bad, t)
		case ts.fails(t, limit) && !ts.isOutage(t, limit):
			c.Bad = append(c.Bad, t)
			if c.Upload == nil {
				c.Upload = u
			}
		case c.Upload == nil || isProven(t):
			c.Upload = u
			return c
		}
	}
	return c
}

// isProven reports whether nodes from an upload have been usable.
func isProven(t *resources.Trial) bool {
	return t != nil && (!t.Launched.IsZero() || !t.Validated.IsZero())
}

func (ts Trials) fails(t *resources.Trial, limit int) bool {
	return t != nil && limit > 0 && t.Failures >= limit
}

// isOutage reports whether launches from another upload that has launched before failed at the same time.
func (ts Trials) isOutage(t *resources.Trial, limit int) bool {
	for _, other := range ts {
		if other.Upload != t.Upload && isProven(other) && other.Failures >= min(2, limit) && overlap(t, other) {
			return true
		}
	}
	return false
}

func overlap(a, b *resources.Trial) bool {
	return a.Failures > 0 && b.Failures > 0 &&
		!b.Since.After(a.Failed.Add(outageSlack)) && !b.Failed.Before(a.Since.Add(-outageSlack))
}

// BootChoiceOf returns the upload from which new nodes of an image boot in a provider.
func BootChoiceOf(want resources.Desired, r Records, image, provider string) BootChoice {
	p, _ := want.Provider(provider)
	return TrialsOf(r, image, provider).BootChoice(want.Image(image), p, ReadyUploads(r, image, provider))
}

// BootChoices returns the choice for each image and provider with an upload that is used or has to be validated.
func BootChoices(want resources.Desired, r Records) (choices []BootChoice) {
	places, images, providers := map[imageAt]Records{}, map[string]*resources.Image{}, map[string]*resources.Provider{}
	for i := range want.Images {
		images[want.Images[i].Name] = &want.Images[i]
	}
	for i := range want.Providers {
		providers[want.Providers[i].Name] = &want.Providers[i]
	}
	builds := map[string]*resources.Build{}
	for _, b := range r.Builds {
		builds[b.ID] = b
	}
	for _, u := range r.Uploads {
		at := imageAt{u.Image, u.Provider}
		place := places[at]
		place.Uploads, place.Trials = append(place.Uploads, u), r.Trials
		if b := builds[u.Build]; b != nil {
			place.Builds = append(place.Builds, b)
		}
		places[at] = place
	}
	for at, place := range places {
		choice := TrialsOf(place, at.image, at.provider).BootChoice(images[at.image], providers[at.provider], ReadyUploads(place, at.image, at.provider))
		if choice.Upload != nil || choice.Untested != nil {
			choices = append(choices, choice)
		}
	}
	return choices
}

// ReadyUploads returns the ready uploads of an image in a provider, the newest build first.
func ReadyUploads(r Records, image, provider string) []*resources.Upload {
	builds := make(map[string]*resources.Build, len(r.Builds))
	for _, b := range r.Builds {
		builds[b.ID] = b
	}
	var ready []*resources.Upload
	for _, u := range r.Uploads {
		if u.Image == image && u.Provider == provider && u.State == resources.StateReady {
			ready = append(ready, u)
		}
	}
	slices.SortFunc(ready, func(a, b *resources.Upload) int {
		return resources.CompareUploads(a, b, func(id string) *resources.Build { return builds[id] })
	})
	return ready
}

// trialError is the maximum length of the error in a trial, in characters.
const trialError = 2000

// refreshTrial is the age at which the time of a successful launch is updated.
const refreshTrial = time.Hour

// hasLaunched reports whether another success changes nothing.
func hasLaunched(t *resources.Trial, now time.Time) bool {
	return t.Failures == 0 && now.Sub(t.Launched) < refreshTrial && !t.Launched.After(now.Add(clockSlack))
}

// Counts reports whether CountLaunch has to be called for the result of a launch. t is the trial of its upload, or nil. img is nil if
// the image is not configured.
func Counts(img *resources.Image, t *resources.Trial, now time.Time, cause error) bool {
	inRollout := img != nil && img.Rollout != nil && !isComplete(t)
	return cause != nil || t == nil || inRollout || !hasLaunched(t, now)
}

// LaunchResult is the end of a launch from an upload. Cause is nil for a success, otherwise an error that the image may have caused.
type LaunchResult struct {
	Upload *resources.Upload
	Now    time.Time
	Cause  error
}

// CountLaunch returns the trials that change by the result of a launch. ready are the ready uploads, the newest build first. It
// changes no trial of ts.
func (ts Trials) CountLaunch(img *resources.Image, p *resources.Provider, ready []*resources.Upload, result LaunchResult) []*resources.Trial {
	changed := ts.Count(result.Upload, result.Now, result.Cause, RevertLimit(img, p))
	r := ts.BootChoice(img, p, ready).Rollout
	if result.Cause != nil || r == nil || r.Upload.ID != result.Upload.ID {
		return changed
	}
	t := ts.Of(result.Upload)
	t.Launched = result.Now
	t.ForgetFailures()
	r.Advance(&t, img.Rollout)
	changed = slices.DeleteFunc(changed, func(c *resources.Trial) bool { return c.Upload == t.Upload })
	return append(changed, &t)
}

// Count returns the trials that change by the result of a launch from an upload: nil for a success, otherwise an error
// that the image may have caused. It changes no trial of ts.
func (ts Trials) Count(u *resources.Upload, now time.Time, cause error, limit int) (changed []*resources.Trial) {
	t := ts.Of(u)
	if cause != nil {
		if t.Failures == 0 || ts.isOutage(&t, limit) { // failures of an outage say nothing
			t.Failures, t.Since = 0, now
		}
		t.Failures, t.Failed, t.Error = t.Failures+1, now, text.Shorten(cause.Error(), trialError)
		return []*resources.Trial{&t}
	}
	if hasLaunched(&t, now) {
		return nil
	}
	if t.Failures >= min(2, limit) { // the end of an outage: failures from other uploads said nothing either
		for _, other := range ts {
			if other.Upload != t.Upload && overlap(other, &t) {
				reset := *other
				reset.ForgetFailures()
				changed = append(changed, &reset)
			}
		}
		slices.SortFunc(changed, func(a, b *resources.Trial) int { return strings.Compare(a.Upload, b.Upload) })
	}
	t.Launched = now
	t.ForgetFailures()
	return append(changed, &t)
}

// boot returns the upload from which nodes of an image boot in a provider, without uploads that the plan deletes.
func (d *draft) boot(image, provider string) BootChoice {
	w := d.world
	return w.trials[imageAt{image, provider}].BootChoice(w.images[image], w.providers[provider], d.readyUploads(image, provider))
}

// noteReturn notes that launches do not use the newest upload of an image, or that they fail and cannot use an older one. It
// returns the upload that they use.
func (ip *imagePlanner) noteReturn(img *resources.Image, p *resources.Provider) *resources.Upload {
	c := ip.draft.boot(img.Name, p.Name)
	ip.noteRollout(img, p, c)
	at := uploadAddress(p.Name, img.Name)
	switch {
	case c.Pinned != nil:
		ip.draft.note(Info, "pinned", at, img.Source, "nodes of %s in %s boot from build %s, which %s; npctl image unpin %s ends this",
			img.Name, p.Name, c.Upload.Build, decided("pinned", c.Pinned.Pinned), img.Name)
	case len(c.Bad) == 0:
	case c.IsReturn():
		ip.draft.note(Warning, "returned", at, img.Source, "nodes of %s in %s boot from the older build %s: %s; the next build is tried, and npctl image promote %s tries this one again",
			img.Name, p.Name, c.Upload.Build, whyBad(c.Bad[0]), img.Name)
	case c.Upload == nil:
		ip.draft.note(Warning, "no-return", at, img.Source, "no node of %s is launched in %s: %s, and there is no other build", img.Name, p.Name, whyBad(c.Bad[0]))
	default:
		own := slices.IndexFunc(c.Bad, func(t *resources.Trial) bool { return t.Upload == c.Upload.ID })
		ip.draft.note(Warning, "no-return", at, img.Source, "%s has no older build in %s that has launched, and %s", img.Name, p.Name, whyBad(c.Bad[own]))
	}
	return c.Upload
}

// whyBad describes why launches leave an upload.
func whyBad(t *resources.Trial) string {
	if r := t.Rejected; r != nil {
		return "build " + t.Build + " " + decided("rejected", r)
	}
	return fmt.Sprintf("%s in a row from build %s failed, the last at %s: %s", text.Count(t.Failures, "launch", "launches"), t.Build, clock(t.Failed), FirstLine(t.Error))
}

// decided returns text such as "was rejected by anna@host at 2026-11-28T08:12:40Z: old kernel".
func decided(what string, d *resources.Decision) string {
	return strings.TrimSuffix(fmt.Sprintf("was %s by %s at %s: %s", what, d.Actor, clock(d.Time), d.Reason), ": ")
}

// neededByLaunches returns the upload that retention keeps beyond the number to keep, or nil: the pinned one, or the newest one with a
// successful launch, to which launches may have to return.
func (ip *imagePlanner) neededByLaunches(img *resources.Image, provider string) *resources.Upload {
	if c := ip.draft.boot(img.Name, provider); c.Pinned != nil || c.Rollout != nil {
		return c.Upload
	}
	if img.Validate == nil && RevertLimit(img, ip.world.providers[provider]) == 0 {
		return nil
	}
	trials := ip.world.trials[imageAt{img.Name, provider}]
	for _, u := range ip.draft.readyUploads(img.Name, provider) {
		if t := trials[u.ID]; isProven(t) && t.Failures == 0 {
			return u
		}
	}
	return nil
}
