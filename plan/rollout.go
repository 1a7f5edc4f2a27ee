package plan

import (
	"fmt"
	"slices"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// Rollout is the state of a new build of an image in a provider from which only a part of the nodes boots.
type Rollout struct {
	Upload *resources.Upload // of the new build
	Stage  int               // from 0
	resources.RolloutStage
	Passed int // successful launches in this stage
}

// isComplete reports whether all launches may use an upload. Uploads that have launched nodes before the image had a rollout block
// are complete.
func isComplete(t *resources.Trial) bool {
	return t != nil && (!t.Completed.IsZero() || !t.Launched.IsZero() && t.StageSince.IsZero())
}

// withRollout changes a choice while the upload that it selects is in a rollout: Upload becomes the newest complete upload before it.
// Without such an upload there is no rollout. usable are the uploads of the choice, the newest build first.
func (ts Trials) withRollout(c BootChoice, img *resources.Image, usable []*resources.Upload, limit int) BootChoice {
	if img == nil || img.Rollout == nil || c.Upload == nil || c.Pinned != nil || isComplete(ts[c.Upload.ID]) {
		return c
	}
	base, older := (*resources.Upload)(nil), false
	for _, u := range usable {
		t := ts[u.ID]
		if older && isComplete(t) && t.Rejected == nil && !ts.fails(t, limit) {
			base = u
			break
		}
		older = older || u == c.Upload
	}
	if base == nil {
		return c
	}
	if slices.ContainsFunc(c.Bad, func(t *resources.Trial) bool { return t.Rejected == nil || !t.Launched.IsZero() }) {
		c.Upload = base // a newer build has ended this rollout by one of its own
		return c
	}
	stages := img.Rollout.Stages
	r := &Rollout{Upload: c.Upload}
	if t := ts[c.Upload.ID]; t != nil {
		r.Stage, r.Passed = min(t.Stage, len(stages)-1), t.StagePassed
	}
	r.RolloutStage = stages[r.Stage]
	c.Upload, c.Rollout = base, r
	return c
}

// Advance counts a successful launch in the rollout of a choice, in the trial t of its upload. The last success that a stage needs
// ends it, or the first one after its pause.
func (r *Rollout) Advance(t *resources.Trial, rule *resources.Rollout) {
	if t.StageSince.IsZero() {
		t.StageSince = t.Launched
	}
	t.StagePassed++
	if t.StagePassed < r.Successes || t.Launched.Sub(t.StageSince) < r.Pause {
		return
	}
	t.Stage, t.StagePassed, t.StageSince = r.Stage+1, 0, t.Launched
	if t.Stage >= len(rule.Stages) {
		t.Completed = t.Launched
	}
}

// text returns text such as "stage 1 of 2: 10 % of the nodes".
func (r *Rollout) text(rule *resources.Rollout) string {
	return fmt.Sprintf("stage %d of %d: %d %% of the nodes", r.Stage+1, len(rule.Stages), r.Share)
}

// rolloutShare counts the nodes of an image in a provider: all, and the nodes from the build of its rollout.
type rolloutShare struct{ all, newer int64 }

// takesNewer reports whether the next launch from an image uses the build of its rollout, and counts the launch.
func (pl *placement) takesNewer(at imageAt, r *Rollout) bool {
	share := pl.rollouts[at]
	if share == nil {
		share = &rolloutShare{}
		pl.rollouts[at] = share
		for _, n := range pl.world.nodes[at.provider] {
			if u := pl.world.upload[n.Upload]; u == nil || u.Image != at.image || n.Validates != "" || pl.draft.deletedBy[n.Key()] != "" {
				continue
			}
			share.all++
			if n.Upload == r.Upload.ID {
				share.newer++
			}
		}
	}
	share.all++
	if most := (share.all*int64(r.Share) + 99) / 100; share.newer >= most { // rounded up: the share is never 0
		return false
	}
	share.newer++
	return true
}

// noteRollout notes the stage of a rollout.
func (ip *imagePlanner) noteRollout(img *resources.Image, p *resources.Provider, c BootChoice) {
	if r := c.Rollout; r != nil {
		ip.draft.note(Info, "rollout", uploadAddress(p.Name, img.Name), img.Source, "build %s of %s in %s is in %s, the others boot from build %s; %d of %s in this stage",
			r.Upload.Build, img.Name, p.Name, r.text(img.Rollout), c.Upload.Build, r.Passed, text.Count(int64(r.Successes), "success", "successes"))
	}
}
