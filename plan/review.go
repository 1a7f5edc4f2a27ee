package plan

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/npctl/npctl/resources"
)

// review narrows a complete plan to the options and adds the guards against deletion.
type review struct{ world *world }

// finish returns the plan of a draft. waiting lists the pools that requests wait for.
func finish(w *world, d *draft, waiting []resources.Placement) Plan {
	rv := review{w}
	for _, a := range w.opt.Replace {
		if !d.replaceAddresses[a] {
			d.problems = append(d.problems, Problem{Address: a, Text: "no object that can be replaced has this address",
				Hint: "images are diskimage.NAME or zuul_image.NAME, uploads provider.NAME.image.IMAGE, nodes node.ID; see npctl state list"})
		}
	}
	d.steps = d.withoutFailing(d.steps)
	slices.Sort(d.kept.addresses)
	unchanged := Unchanged{addresses: slices.Compact(d.kept.addresses),
		nodes: slices.DeleteFunc(d.kept.nodes, func(n *resources.Node) bool { return d.deletedBy[n.Key()] != "" })}
	p := Plan{Steps: d.steps, Notes: d.notes, Problems: d.problems, Unchanged: unchanged, Deferred: d.deferred, InProgress: w.seen.LockHolder, Waiting: waiting, Relist: slices.Sorted(maps.Keys(d.relist))}
	if len(w.opt.Remove) > 0 {
		p.Problems = d.unremovable // other problems do not prevent a removal
	}
	if len(w.opt.Images) > 0 {
		p = rv.onlyImages(p)
	}
	if len(w.opt.Imports) > 0 {
		p = rv.onlyImports(p)
	}
	p = selectSteps(p, w.opt)
	wholeMoves(p.Steps)
	p = rv.withConsent(p)
	p.Problems = append(p.Problems, forbidden(p.Steps, w.declared, w.seen.Records, w.opt)...)
	p.Steps = order(p.Steps)
	p.Notes = append(p.Notes, rv.missingPrograms(p.Steps)...)
	return p
}

// onlyImages keeps the steps of the images in Options.Images with the steps that they need, and the notes and
// problems about these images. With -target it keeps those about the targets.
func (rv review) onlyImages(p Plan) Plan {
	p.Steps = withNeeds(p.Steps, func(s Step) bool { return s.Thing != ThingNode && slices.Contains(rv.world.opt.Images, s.Image) })
	about, users := rv.aboutImages(), rv.usersOf(rv.world.opt.Images)
	p.Notes = slices.DeleteFunc(p.Notes, func(n Note) bool {
		return !about[n.Address] && (n.Code != "deferred" || !users[n.Address])
	})
	problems := p.Problems
	p.Problems = nil
	for _, q := range problems {
		switch at := ProviderAddress(q.Provider); {
		case about[q.Address]:
			p.Problems = append(p.Problems, q)
		case users[at] && slices.Contains(p.Deferred, q.Provider): // a provider that rejects its query does not stop the others
			p.Notes = append(p.Notes, Note{Severity: Warning, Code: "deferred", Address: q.Address, Text: q.Text, Source: q.Source})
		}
	}
	p.Deferred = slices.DeleteFunc(p.Deferred, func(name string) bool { return !users[ProviderAddress(name)] })
	p.Unchanged = Unchanged{}
	return p
}

// aboutImages returns the addresses of the images and their uploads, and whether they are targeted.
func (rv review) aboutImages() map[Address]bool {
	about := map[Address]bool{}
	add := func(at Address) {
		about[at] = len(rv.world.opt.Targets) == 0 || within([]Address{at}, rv.world.opt.Targets)
	}
	for _, image := range rv.world.opt.Images {
		add(imageAddress(rv.world.imageKind(image), image))
		for _, provider := range rv.world.names {
			add(uploadAddress(provider, image))
		}
	}
	return about
}

// usersOf returns the addresses of the targeted providers that boot from the images.
func (rv review) usersOf(images []string) map[Address]bool {
	users := map[Address]bool{}
	for _, s := range rv.world.pools {
		at := ProviderAddress(s.at.provider)
		uses := slices.ContainsFunc(s.pool.Offers, func(o resources.Offer) bool {
			return o.Image.IsUploaded() && slices.Contains(images, o.Image.Name)
		})
		if uses && (len(rv.world.opt.Targets) == 0 || concerns(rv.world.opt.Targets, at)) {
			users[at] = true
		}
	}
	return users
}

// Program is a program that this host lacks.
type Program struct {
	Name    string
	Package string // the Debian package to install; empty when unknown
}

// Tools states what the builds of one image need of this host.
type Tools struct {
	Missing []Program // programs that the builder runs
	Formats []string  // formats that the builder creates without qemu-img; nil when unknown
}

// work names the work of steps that need programs.
var work = map[Action]string{ActionBuild: "build", ActionConvert: "conversion"}

// missingPrograms notes the steps that will fail because a program is missing.
func (rv review) missingPrograms(steps []Step) (notes []Note) {
	seen := map[string]bool{}
	for _, s := range steps {
		tools := rv.world.seen.Tools[s.Image]
		var lacking []Program
		foreign := func(format string) bool { return !slices.Contains(tools.Formats, format) }
		if s.Kind == KindBuild {
			lacking = slices.Clone(tools.Missing)
		}
		if s.Kind == KindConvert || s.Kind == KindBuild && tools.Formats != nil && slices.ContainsFunc(s.Formats, foreign) {
			lacking = append(lacking, rv.world.seen.Converter...)
		}
		for _, program := range lacking {
			text := fmt.Sprintf("this host lacks %s, so the %s of %s will fail", program.Name, work[s.Action], s.Address)
			if program.Package != "" {
				text += "; install the Debian package " + program.Package
			}
			if !seen[text] {
				seen[text] = true
				notes = append(notes, Note{Severity: Warning, Code: "program-missing", Address: s.Address, Text: text, Source: s.Source})
			}
		}
	}
	return notes
}

// order sorts steps so that each one follows the steps that it waits for, and otherwise by phase, address and ID. It
// ignores IDs of steps that are not in the plan.
func order(steps []Step) []Step {
	phase := func(s Step) int { kind, _ := actionKindOf(s.Action); return kind.phase }
	slices.SortFunc(steps, func(a, b Step) int {
		return cmp.Or(cmp.Compare(phase(a), phase(b)), cmp.Compare(a.Address, b.Address), len(a.ID)-len(b.ID), cmp.Compare(a.ID, b.ID))
	})
	place := make(map[string]int, len(steps))
	for i, s := range steps {
		place[s.ID] = i
	}
	sorted := make([]Step, 0, len(steps))
	state := make([]byte, len(steps)) // 1: in progress, 2: placed
	var visit func(i int)
	visit = func(i int) {
		if state[i] != 0 {
			return // placed, or a cycle, which the tests rule out
		}
		state[i] = 1
		for _, needs := range [][]string{steps[i].Needs, steps[i].After} {
			for _, id := range needs {
				if j, ok := place[id]; ok {
					visit(j)
				}
			}
		}
		state[i] = 2
		sorted = append(sorted, steps[i])
	}
	for i := range steps {
		visit(i)
	}
	return sorted
}

// selectSteps reduces a plan to the selection of the options, such as -target, -exclude and -refresh-only. A targeted
// step includes the steps that it needs; a step that needs an excluded one is excluded too.
func selectSteps(p Plan, opt Options) Plan {
	if opt.RefreshOnly {
		p.Steps = slices.DeleteFunc(p.Steps, func(s Step) bool { return s.Action != ActionForget || s.Thing == ThingRecord || s.Releases() })
	}
	if len(opt.Remove) > 0 {
		p = onlyRemovals(p, opt.Remove)
	}
	if len(opt.Upload) > 0 {
		p.Steps = withNeeds(p.Steps, func(s Step) bool {
			renewed := s.Kind == KindDeleteUpload && s.Reason == ReasonRequested
			return (s.Kind == KindUpload || renewed) && slices.Contains(opt.Upload, s.Build)
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
	return slices.DeleteFunc(steps, func(s Step) bool { return !wanted[s.ID] })
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
	return slices.DeleteFunc(steps, func(s Step) bool { return out[s.ID] })
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
