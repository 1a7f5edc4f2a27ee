package plan

import (
	"fmt"
	"strings"

	"github.com/npctl/npctl/resources"
)

// Limits on what a changed configuration removes without consent.
const (
	// RemovalsAtMost is the most things that are removed without consent.
	RemovalsAtMost = 10
	// smallFleet is the least number of things of which more than half are not removed without consent.
	smallFleet = 3
)

// NoteConsent is the code of the note that removals wait for consent.
const NoteConsent = "consent-needed"

// Consent says that a plan removes so much that somebody has to say that it is meant.
type Consent struct {
	Removed []Address // what is no longer configured
	Things  int       // nodes, builds and uploads that there are
	Empty   bool      // the configuration has no providers and no images
}

// Error says what is wrong, as a sentence without a full stop.
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
		return fmt.Sprintf("the configuration is empty and would remove all of the %s that there are (%s); that needs consent", plural(c.Things, "thing"), list)
	}
	if len(c.Removed) > RemovalsAtMost {
		return fmt.Sprintf("the configuration would remove %s (%s), more than the %d that need no consent", plural(len(c.Removed), "thing"), list, RemovalsAtMost)
	}
	return fmt.Sprintf("the configuration would remove %d of %s (%s), and more than half needs consent", len(c.Removed), plural(c.Things, "thing"), list)
}

// consent decides whether the steps remove more than a configuration may remove without consent, and holds those back that
// remove. What is replaced does not count, nor do things whose time is over.
func (c *computation) consent(steps []Step) *Consent {
	if c.opt.AllowDestroy != "" || c.opt.Destroy || len(c.opt.Remove) > 0 || len(c.opt.Upload) > 0 {
		return nil
	}
	consent := &Consent{Things: c.things(), Empty: len(c.declared.Providers) == 0 && len(c.declared.Images) == 0}
	made, shrunk := 0, 0
	for _, s := range steps {
		switch {
		case s.unconfigured():
			consent.Removed = append(consent.Removed, s.Address)
			if s.Reason == ReasonAboveMaxServers {
				shrunk++
			}
		case s.creates() && !s.Replaces:
			made++
		}
	}
	removed := len(consent.Removed)
	lost := removed - shrunk - made // a renamed block removes things, and makes as many
	isMost := consent.Things >= smallFleet && lost*2 > consent.Things
	if removed == 0 || removed <= RemovalsAtMost && !isMost && !consent.Empty && !c.opt.Hold {
		return nil
	}
	for i := range steps {
		steps[i].Held = steps[i].unconfigured()
	}
	return consent
}

// unconfigured reports whether the step removes a thing because the configuration no longer wants it.
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

func (s *Step) creates() bool {
	return s.Action == ActionLaunch || s.Action == ActionRegister || s.Action == ActionBuild || s.Action == ActionUpload
}

// things counts what there is of this process's, apart from what is going.
func (c *computation) things() int {
	n := 0
	for _, nodes := range c.world.nodes {
		for _, node := range nodes {
			if node.State != resources.StateDeleting {
				n++
			}
		}
	}
	for _, u := range c.seen.Records.Uploads {
		if u.State != resources.StateDeleting && !c.world.others(u.Provider) {
			n++
		}
	}
	for _, b := range c.seen.Records.Builds {
		if b.State != resources.StateDeleting {
			n++
		}
	}
	return n
}

// withConsent adds to a plan that something in it needs consent: a problem, or, where nobody waits for an answer, a note.
func (c *computation) withConsent(p Plan) Plan {
	if p.Consent = c.consent(p.Steps); p.Consent == nil {
		return p
	}
	if c.opt.Patient {
		p.Notes = append(p.Notes, Note{Severity: Warning, Code: NoteConsent, Text: p.Consent.Error() + "; what would be removed is left alone"})
		return p
	}
	p.Problems = append(p.Problems, Problem{Address: "npctl", Text: p.Consent.Error(),
		Hint: "if that is meant, give -allow-destroy=all (or nodes, or images); otherwise look for a file of the configuration that is missing or cut"})
	return p
}
