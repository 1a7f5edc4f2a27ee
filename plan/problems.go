package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// cloudProblems reports the errors that the clouds found in names of the configuration.
func (d *draft) cloudProblems() {
	for i := range d.world.want.Providers {
		p := &d.world.want.Providers[i]
		view, looked := d.world.view(p.Name)
		if !looked {
			continue
		}
		for j := range p.Pools {
			for k := range p.Pools[j].Offers {
				o := &p.Pools[j].Offers[k]
				for _, problem := range view.Offers[OfferKey{p.Pools[j].Name, o.Label}].Problems {
					d.problem(OfferAddress(p.Name, p.Pools[j].Name, o.Label), p.Name, problem, o.Source)
				}
			}
		}
		for j := range p.CloudImages {
			image := &p.CloudImages[j]
			for _, problem := range view.CloudImages[image.Name].Problems {
				d.problem(ProviderAddress(p.Name)+Address(".cloud_image."+image.Name), p.Name, problem, image.Source)
			}
		}
	}
}

func (d *draft) problem(at Address, provider string, p resources.Problem, source resources.Source) {
	value := p.Value
	if _, err := strconv.ParseFloat(value, 64); err != nil { // a number is written without quotes
		value = strconv.Quote(value)
	}
	text := fmt.Sprintf("%s = %s: %s", p.Attribute, value, p.Detail)
	hint := ""
	if len(p.Suggestions) > 0 {
		hint = "did you mean " + strings.Join(p.Suggestions, ", ") + "?"
	}
	d.problems = append(d.problems, Problem{Address: at, Provider: provider, Text: text, Hint: hint, Source: source})
}

// forbidden returns a problem for each step that prevent_destroy or -allow-destroy forbids. The whole plan is not
// applied then: a part of it would leave the fleet between two configurations.
func forbidden(steps []Step, want resources.Desired, records Records, opt Options) []Problem {
	var problems []Problem
	for _, s := range steps {
		if q, found := inUse(s, records, opt); found {
			problems = append(problems, q)
		}
		if !s.Removes() || s.Thing == ThingRecord {
			continue
		}
		if kind := destroys(s); !isAging(s.Reason) && !opt.AllowDestroy.allows(kind) {
			problems = append(problems, Problem{Address: s.Address, Provider: s.Provider,
				Text: fmt.Sprintf("the plan %ss %s %s, and -allow-destroy=%s forbids that", s.Action, s.Thing, s.Address, opt.AllowDestroy),
				Hint: fmt.Sprintf("-allow-destroy=all or -allow-destroy=%s allows it, -exclude=%s leaves it out", kind, s.Address)})
		}
		if what := protected(s, want, records); what != "" {
			problems = append(problems, Problem{Address: s.Address, Provider: s.Provider,
				Text: fmt.Sprintf("the plan %ss %s %s, and %s has prevent_destroy", s.Action, s.Thing, s.Address, what),
				Hint: "set prevent_destroy = false and apply that first; removing the block does not lift it"})
		}
	}
	return problems
}

// inUse returns the problem of a destroy or -replace step that deletes a node in use or on hold, unless
// Options.AllowDestroy covers nodes.
func inUse(s Step, records Records, opt Options) (Problem, bool) {
	asked := s.Reason == ReasonDestroy || s.Reason == ReasonRequested
	if !s.Removes() || s.Thing != ThingNode || !asked || opt.AllowDestroy != "" && opt.AllowDestroy.allows(AllowNodes) {
		return Problem{}, false
	}
	n, exists := records.Get(s.Record).(*resources.Node)
	if !exists || !n.State.IsInService() || n.State == resources.StateInUse && records.isIdleBacking(n) {
		return Problem{}, false
	}
	return Problem{Address: s.Address, Provider: s.Provider,
		Text: fmt.Sprintf("node %s is %s%s, and the plan removes it", n.ID, n.State, userOf(n)),
		Hint: fmt.Sprintf("wait until it is returned, omit it with -exclude=%s, or allow it with -allow-destroy=all", s.Address)}, true
}

func userOf(n *resources.Node) string {
	switch {
	case n.Lease != nil && n.Lease.Holder != "":
		return " by " + n.Lease.Holder
	case n.Requestor != "":
		return " by " + n.Requestor
	default:
		return ""
	}
}

// isAging reports whether an object is deleted because its time is over, and not because of a change of the
// configuration. A guard that forbade such deletions too would have to be switched off.
func isAging(r Reason) bool {
	switch r {
	case ReasonSuperseded, ReasonRejected, ReasonUploaded, ReasonFailed, ReasonNotReady, ReasonAddressChanged, ReasonUnfinished, ReasonUsed, ReasonSurplus, ReasonMaxReadyAge, ReasonLeaked, ReasonDuplicate, ReasonRequestGone:
		return true
	default:
		return false
	}
}

func destroys(s Step) Allow {
	if s.Thing == ThingNode || s.Thing == ThingLeftover && s.Type != "image" && s.Type != "file" {
		return AllowNodes
	}
	return AllowImages
}

func (a Allow) allows(kind Allow) bool { return a == "" || a == AllowAll || a == kind }

// protected returns the block that forbids a step, as the configuration defines it now or, if the block is removed,
// as it was last. Retention (superseded, failed, replaced) is not destruction: the builds of a protected image still
// age.
func protected(s Step, want resources.Desired, records Records) string {
	switch s.Reason {
	case ReasonImageRemoved, ReasonLabelRemoved, ReasonPoolRemoved, ReasonProviderRemoved, ReasonStaticNodeGone, ReasonSlotRemoved, ReasonDestroy:
	default:
		return ""
	}
	if s.Image != "" && ProtectedImage(s.Image, want, records) {
		return "image " + s.Image
	}
	if s.Provider != "" && ProtectedProvider(s.Provider, want, records) {
		return "provider " + s.Provider
	}
	return ""
}

// ProtectedImage reports whether prevent_destroy protects an image: as configured now or, if its block is removed, as it
// was last.
func ProtectedImage(name string, want resources.Desired, records Records) bool {
	for _, img := range want.Images {
		if img.Name == name {
			return img.PreventDestroy
		}
	}
	return slices.ContainsFunc(records.Images, func(r *resources.ImageRecord) bool { return r.Name == name && r.PreventDestroy })
}

// ProtectedProvider is ProtectedImage for a provider.
func ProtectedProvider(name string, want resources.Desired, records Records) bool {
	for _, p := range want.Providers {
		if p.Name == name {
			return p.PreventDestroy
		}
	}
	return slices.ContainsFunc(records.Providers, func(r *resources.ProviderRecord) bool { return r.Name == name && r.PreventDestroy })
}

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

// withConsent adds to a plan that it needs consent, if it removes more than a configuration may remove without: as a
// problem or, with HonorBackoff (the daemon), as a note. It marks the steps that need it. Replacements and the removal of
// expired objects do not count.
func (rv review) withConsent(p Plan) Plan {
	opt := rv.world.opt
	if opt.AllowDestroy != "" || opt.Destroy || len(opt.Remove) > 0 || len(opt.Upload) > 0 {
		return p
	}
	consent := &Consent{Things: rv.things(), Empty: len(rv.world.declared.Providers) == 0 && len(rv.world.declared.Images) == 0}
	made, shrunk := 0, 0
	for _, s := range p.Steps {
		switch {
		case s.unconfigured():
			consent.Removed = append(consent.Removed, s.Address)
			if s.Reason == ReasonAboveMaxServers {
				shrunk++
			}
		case slices.Contains([]Kind{KindLaunch, KindRegisterSlot, KindBuild, KindUpload}, s.Kind) && !s.Replaces:
			made++
		}
	}
	removed := len(consent.Removed)
	lost := removed - shrunk - made // a renamed block removes objects and creates as many
	isMost := consent.Things >= smallFleet && lost*2 > consent.Things
	if removed == 0 || removed <= maxUnconfirmedRemovals && !isMost && !consent.Empty && !opt.RequireConsent {
		return p
	}
	p.Consent = consent
	for i := range p.Steps {
		p.Steps[i].NeedsConsent = p.Steps[i].unconfigured()
	}
	if opt.HonorBackoff {
		p.Notes = append(p.Notes, Note{Severity: Warning, Code: noteConsent, Text: consent.Error() + "; npctl does not run these removals"})
		return p
	}
	p.Problems = append(p.Problems, Problem{Address: "npctl", Text: consent.Error(),
		Hint: "to confirm, pass -allow-destroy=all (or nodes, or images); otherwise check whether a configuration file is missing or truncated"})
	return p
}

// unconfigured reports whether the step removes an object because the configuration no longer wants it. A slot is no object:
// its machine stays.
func (s *Step) unconfigured() bool {
	if !s.Removes() || s.Replaces || s.Thing != ThingNode && s.Thing != ThingUpload && s.Thing != ThingBuild {
		return false
	}
	switch s.Reason {
	case ReasonImageRemoved, ReasonLabelRemoved, ReasonPoolRemoved, ReasonProviderRemoved, ReasonStaticNodeGone, ReasonConfigChanged,
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
