package plan

import (
	"regexp"
	"slices"
	"strings"

	"github.com/npctl/npctl/resources"
)

// selectSteps reduces a plan to the selection of the options, such as -target, -exclude and -refresh-only. A targeted
// step includes the steps that it needs; a step that needs an excluded one is excluded too.
func selectSteps(p Plan, opt Options) Plan {
	if opt.RefreshOnly {
		p.Steps = keep(p.Steps, func(s Step) bool { return s.Action == ActionForget && s.Thing != ThingRecord })
	}
	if len(opt.Remove) > 0 {
		p = onlyRemovals(p, opt.Remove)
	}
	if len(opt.Upload) > 0 {
		p.Steps = withNeeds(p.Steps, func(s Step) bool {
			renewed := s.Action == ActionDelete && s.Thing == ThingUpload && s.Reason == ReasonRequested
			return (s.Action == ActionUpload || renewed) && slices.Contains(opt.Upload, s.Build)
		})
	}
	if len(opt.Targets) > 0 {
		p.Steps = withNeeds(p.Steps, func(s Step) bool { return within(s.addresses(), opt.Targets) })
		p.Problems = slices.DeleteFunc(p.Problems, func(q Problem) bool { return !within(problemScopes(q), opt.Targets) })
		p.Deferred = slices.DeleteFunc(p.Deferred, func(name string) bool { return !concerns(opt.Targets, ProviderAddress(name)) })
		if len(opt.Images) == 0 {
			p.Notes = append(p.Notes, Note{Severity: Warning, Code: "targeted",
				Text: "-target limits this plan; plan without it afterwards to see the rest"})
		}
	}
	if len(opt.Excludes) > 0 {
		out := map[string]bool{}
		for _, s := range p.Steps {
			out[s.ID] = within(s.addresses(), opt.Excludes)
		}
		p.Steps = without(p.Steps, out)
		p.Deferred = slices.DeleteFunc(p.Deferred, func(name string) bool { return within([]Address{ProviderAddress(name)}, opt.Excludes) })
		p.Problems = slices.DeleteFunc(p.Problems, func(q Problem) bool { return within(problemScopes(q), opt.Excludes) })
		p.Notes = append(p.Notes, Note{Severity: Warning, Code: "excluded",
			Text: "-exclude limits this plan; plan without it afterwards to see the rest"})
	}
	return p
}

func keep(steps []Step, wanted func(Step) bool) []Step {
	return slices.DeleteFunc(steps, func(s Step) bool { return !wanted(s) })
}

// onlyRemovals keeps the steps that delete the named records, with the steps that they need.
func onlyRemovals(p Plan, keys []resources.Key) Plan {
	p.Steps = withNeeds(p.Steps, func(s Step) bool { return s.Action == ActionDelete && slices.Contains(keys, s.Record) })
	named := map[Address]bool{}
	for _, s := range p.Steps {
		named[s.Address] = true
	}
	for _, key := range keys {
		named[Address(key.String())] = true
	}
	p.Notes = slices.DeleteFunc(p.Notes, func(n Note) bool { return !named[n.Address] })
	p.Deferred, p.Unchanged = nil, Unchanged{}
	return p
}

// withNeeds keeps the chosen steps and the steps that they need.
func withNeeds(steps []Step, chosen func(Step) bool) []Step {
	byID := map[string]Step{}
	for _, s := range steps {
		byID[s.ID] = s
	}
	wanted := map[string]bool{}
	var want func(id string)
	want = func(id string) {
		if s, ok := byID[id]; ok && !wanted[id] {
			wanted[id] = true
			for _, need := range s.Needs {
				want(need)
			}
		}
	}
	for _, s := range steps {
		if chosen(s) {
			want(s.ID)
		}
	}
	return keep(steps, func(s Step) bool { return wanted[s.ID] })
}

// without removes the steps with the IDs in out, and the steps that need them.
func without(steps []Step, out map[string]bool) []Step {
	for changed := true; changed; {
		changed = false
		for _, s := range steps {
			needsOut := slices.ContainsFunc(s.Needs, func(id string) bool { return out[id] })
			if !out[s.ID] && needsOut {
				out[s.ID], changed = true, true
			}
		}
	}
	return keep(steps, func(s Step) bool { return !out[s.ID] })
}

// addresses returns the addresses that select a step: its own, and those of the blocks that it belongs to.
func (s Step) addresses() []Address {
	scopes := []Address{s.Address}
	if s.Provider != "" {
		scopes = append(scopes, ProviderAddress(s.Provider))
	}
	if s.Pool != "" {
		scopes = append(scopes, poolAddress(s.Provider, s.Pool))
	}
	for label := range strings.SplitSeq(s.Label, ",") {
		if label != "" {
			scopes = append(scopes, Address("label."+label))
			if s.Pool != "" && s.Node == "" {
				scopes = append(scopes, OfferAddress(s.Provider, s.Pool, label))
			}
		}
	}
	if s.Image != "" && s.Thing != ThingNode {
		scopes = append(scopes, imageAddress(resources.DiskImage, s.Image), imageAddress(resources.ZuulImage, s.Image))
	}
	return scopes
}

func problemScopes(p Problem) []Address {
	scopes := []Address{p.Address}
	if p.Provider != "" {
		scopes = append(scopes, ProviderAddress(p.Provider))
	}
	return scopes
}

// concerns reports whether one of the targets may have steps in the provider. Targets inside another provider do not.
func concerns(targets []Address, provider Address) bool {
	return slices.ContainsFunc(targets, func(t Address) bool {
		return !strings.HasPrefix(string(t), "provider.") || within([]Address{t}, []Address{provider}) || within([]Address{provider}, []Address{t})
	})
}

// nestedSuffix matches the start of the rest of a nested address after its parent's address. A dot alone is
// ambiguous: names may contain dots.
var nestedSuffix = regexp.MustCompile(`^(\.(pool|label|node|image|cloud_image|server|` + strings.Join(resources.LeftoverTypes, "|") + `)\.|\[)`)

// within reports whether one of the scopes is, or lies inside, one of the chosen addresses.
func within(scopes, chosen []Address) bool {
	return slices.ContainsFunc(scopes, func(s Address) bool {
		return slices.ContainsFunc(chosen, func(c Address) bool {
			rest, inside := strings.CutPrefix(string(s), string(c))
			return inside && (rest == "" || nestedSuffix.MatchString(rest))
		})
	})
}
