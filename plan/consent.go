package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// Limits on the removals of a changed configuration without consent.
const (
	// maxUnconfirmedRemovals is the maximum number of objects that are removed without consent.
	maxUnconfirmedRemovals = 10
	// smallFleet is the minimum number of objects for the rule that the removal of more than half of them needs
	// consent.
	smallFleet = 3
)

// noteConsent is the code of the note about removals that need consent.
const noteConsent = "consent-needed"

// Consent states that a plan removes so much that the operator has to confirm it.
type Consent struct {
	Removed []Address // addresses of the objects to remove
	Things  int       // number of nodes, builds and uploads
	Empty   bool      // the configuration has no providers and no images
}

// Error returns the reason, as a sentence without a full stop.
func (c *Consent) Error() string {
	names := make([]string, 0, 5)
	for _, a := range c.Removed[:min(len(c.Removed), 5)] {
		names = append(names, string(a))
	}
	if len(c.Removed) > len(names) {
		names = append(names, "...")
	}
	list := strings.Join(names, ", ")
	if c.Empty {
		return fmt.Sprintf("the configuration is empty and would remove all %s (%s), which needs consent", text.Count(c.Things, "object", "objects"), list)
	}
	if len(c.Removed) > maxUnconfirmedRemovals {
		return fmt.Sprintf("the configuration would remove %s (%s), more than the %d that need no consent", text.Count(len(c.Removed), "object", "objects"), list, maxUnconfirmedRemovals)
	}
	return fmt.Sprintf("the configuration would remove %d of %s (%s), and more than half needs consent", len(c.Removed), text.Count(c.Things, "object", "objects"), list)
}

// consent returns a Consent if the steps remove more than a configuration may remove without consent, and marks the
// steps that need it. Replacements and the removal of expired objects do not count.
func (rv review) consent(steps []Step) *Consent {
	if rv.world.opt.AllowDestroy != "" || rv.world.opt.Destroy || len(rv.world.opt.Remove) > 0 || len(rv.world.opt.Upload) > 0 {
		return nil
	}
	consent := &Consent{Things: rv.things(), Empty: len(rv.world.declared.Providers) == 0 && len(rv.world.declared.Images) == 0}
	made, shrunk := 0, 0
	for _, s := range steps {
		switch {
		case s.unconfigured():
			consent.Removed = append(consent.Removed, s.Address)
			if s.Reason == ReasonAboveMaxServers {
				shrunk++
			}
		case slices.Contains([]Action{ActionLaunch, ActionRegister, ActionBuild, ActionUpload}, s.Action) && !s.Replaces:
			made++
		}
	}
	removed := len(consent.Removed)
	lost := removed - shrunk - made // a renamed block removes objects and creates as many
	isMost := consent.Things >= smallFleet && lost*2 > consent.Things
	if removed == 0 || removed <= maxUnconfirmedRemovals && !isMost && !consent.Empty && !rv.world.opt.RequireConsent {
		return nil
	}
	for i := range steps {
		steps[i].NeedsConsent = steps[i].unconfigured()
	}
	return consent
}

// unconfigured reports whether the step removes an object because the configuration no longer wants it.
func (s *Step) unconfigured() bool {
	if !s.Removes() || s.Replaces || s.Thing != ThingNode && s.Thing != ThingUpload && s.Thing != ThingBuild {
		return false
	}
	switch s.Reason {
	case ReasonImageRemoved, ReasonLabelRemoved, ReasonPoolRemoved, ReasonProviderRemoved, ReasonStaticNodeGone, ReasonSlotRemoved, ReasonConfigChanged,
		ReasonAboveMaxServers:
		return true
	default:
		return false
	}
}

// things counts the nodes, builds and uploads of this process, without those in state deleting.
func (rv review) things() int {
	n := 0
	for _, nodes := range rv.world.nodes {
		for _, node := range nodes {
			if node.State != resources.StateDeleting {
				n++
			}
		}
	}
	for _, u := range rv.world.seen.Records.Uploads {
		if u.State != resources.StateDeleting && !rv.world.isForeign(u.Provider) {
			n++
		}
	}
	for _, b := range rv.world.seen.Records.Builds {
		if b.State != resources.StateDeleting {
			n++
		}
	}
	return n
}

// withConsent adds to a plan that it needs consent: as a problem or, with HonorBackoff (the daemon), as a note.
func (rv review) withConsent(p Plan) Plan {
	if p.Consent = rv.consent(p.Steps); p.Consent == nil {
		return p
	}
	if rv.world.opt.HonorBackoff {
		p.Notes = append(p.Notes, Note{Severity: Warning, Code: noteConsent, Text: p.Consent.Error() + "; npctl does not run these removals"})
		return p
	}
	p.Problems = append(p.Problems, Problem{Address: "npctl", Text: p.Consent.Error(),
		Hint: "to confirm, pass -allow-destroy=all (or nodes, or images); otherwise check whether a configuration file is missing or truncated"})
	return p
}
