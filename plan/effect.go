package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// Effect is the effect of a change of the configuration: the difference between the plans of the configuration before it (the
// base) and after it (the head), over one observed state. Work that is due with and without the change is no part of it.
type Effect struct {
	// Against names the base: a revision or a directory.
	Against string `json:"against"`
	// Differences are the attributes and blocks that differ, whether or not they cause steps now.
	Differences []resources.Difference `json:"differences,omitempty"`
	// Added are the steps of the head that the base does not have.
	Added []Step `json:"added,omitempty"`
	// Dropped are the steps of the base that the head does not have. The change prevents them.
	Dropped []Step `json:"dropped,omitempty"`
	// Altered are the steps of the head that the base has for the same object or place, with other attributes. Their Changes
	// are the differences between both.
	Altered []Step `json:"altered,omitempty"`
	// Common is the number of steps that both have.
	Common int `json:"common,omitempty"`
	// Problems and Notes are those of the head that the base does not have.
	Problems []Problem `json:"problems,omitempty"`
	Notes    []Note    `json:"notes,omitempty"`
	// CommonProblems are those of both. They prevent an apply, and the change is not their cause.
	CommonProblems []Problem `json:"common_problems,omitempty"`
	// Deferred names the providers that could not be listed for one of the plans. The effect has no steps for them.
	Deferred []string `json:"deferred,omitempty"`
	// InProgress is as in Plan.
	InProgress *LockHolder `json:"in_progress,omitempty"`
	// Cost is the cost before and after the change.
	Cost CostChange `json:"cost,omitzero"`
	// Least are the entries of the head that the base does not have.
	Least []LeastReady `json:"least_ready,omitempty"`
}

// Side is one side of a comparison.
type Side struct {
	Desired  resources.Desired
	Observed Observed
	Plan     Plan
}

// EffectOf compares two plans over one observed state. Observed of both sides differ only in the fields that depend on the configuration.
// differences are those of the two configurations.
func EffectOf(base, head Side, differences []resources.Difference) Effect {
	moves := head.Desired.Moves
	e := Effect{Differences: slices.Concat(differences, inputDifferences(base, head)), InProgress: cmp.Or(head.Plan.InProgress, base.Plan.InProgress)}
	slices.SortStableFunc(e.Differences, func(a, b resources.Difference) int { return cmp.Compare(a.Address, b.Address) })
	for _, name := range base.Plan.Deferred {
		e.Deferred = append(e.Deferred, moves.Provider(name))
	}
	e.Deferred = append(e.Deferred, head.Plan.Deferred...)
	slices.Sort(e.Deferred)
	e.Deferred = slices.Compact(e.Deferred)
	m := match(base, head, e.Deferred)
	e.Common = m.common
	for _, a := range m.added {
		e.Added = append(e.Added, *a.step)
	}
	for _, a := range m.dropped {
		e.Dropped = append(e.Dropped, *a.step)
	}
	for _, pair := range m.altered {
		s := *pair.head.step
		s.Changes = attributeChanges(pair.base.attributes, pair.head.attributes)
		e.Altered = append(e.Altered, s)
	}
	e.compareTexts(base.Plan, head.Plan)
	for _, l := range head.Plan.Least {
		if !slices.Contains(base.Plan.Least, l) {
			e.Least = append(e.Least, l)
		}
	}
	e.Cost = costChange(base.Plan.Cost, head.Plan.Cost, moves)
	return e
}

// compareTexts compares the problems and notes of both plans, without their positions.
func (e *Effect) compareTexts(base, head Plan) {
	type said struct {
		at         Address
		code, text string
	}
	before := map[said]bool{}
	for _, p := range base.Problems {
		before[said{p.Address, "", p.Text}] = true
	}
	for _, n := range base.Notes {
		before[said{n.Address, n.Code, n.Text}] = true
	}
	for _, p := range head.Problems {
		if before[said{p.Address, "", p.Text}] {
			e.CommonProblems = append(e.CommonProblems, p)
		} else {
			e.Problems = append(e.Problems, p)
		}
	}
	for _, n := range head.Notes {
		if n.Code == "deferred" || !before[said{n.Address, n.Code, n.Text}] { // the notes of deferred providers say why the effect is incomplete
			e.Notes = append(e.Notes, n)
		}
	}
}

// Steps returns the steps of the head that belong to the effect.
func (e Effect) Steps() []Step { return slices.Concat(e.Added, e.Altered) }

// Empty reports whether there is no effect, as far as is known.
func (e Effect) Empty() bool {
	return len(e.Differences)+len(e.Added)+len(e.Dropped)+len(e.Altered)+len(e.Problems) == 0
}

// Incomplete returns why the effect may not cover everything, or "".
func (e Effect) Incomplete() string {
	return Summary{Deferred: len(e.Deferred), InProgress: e.InProgress != nil}.Incomplete()
}

// String returns the last line of a printed effect: "No effect.", or a line such as "Effect: 1 to build, 2 to launch; no longer
// 1 to delete; 3 settings changed.".
func (e Effect) String() string {
	why := e.Incomplete()
	switch {
	case e.Empty() && why == "":
		return "No effect."
	case e.Empty():
		return "No known effect; " + why + "."
	}
	var parts []string
	for _, part := range []struct {
		lead, tail string
		steps      []Step
	}{{"", "", e.Added}, {"no longer ", "", e.Dropped}, {"", " differently", e.Altered}} {
		if len(part.steps) > 0 {
			parts = append(parts, part.lead+Plan{Steps: part.steps}.Summary().counts(false)+part.tail)
		}
	}
	if n := len(e.Differences); n > 0 {
		parts = append(parts, text.Count(n, "setting", "settings")+" changed")
	}
	if n := len(e.Problems); n > 0 {
		parts = append(parts, text.Count(n, "new problem", "new problems"))
	}
	if why != "" {
		parts = append(parts, why)
	}
	return "Effect: " + strings.Join(parts, "; ") + "."
}

// Outline describes the effect without the parts that depend on the moment: a busy fleet has other nodes, and has other steps due, in
// the next minute. It has the settings that differ, the imports, and the removals in blocks that the change does not touch. All other
// steps follow from the settings and the fleet. The lines are sorted and distinct.
func (e Effect) Outline() []string {
	var all []string
	touched := map[Address]bool{}
	for _, d := range e.Differences {
		touched[Address(d.Address)] = true
		words := []string{"setting", d.Address}
		if d.Block != "" {
			words = append(words, string(d.Block))
		} else {
			words = append(words, d.Attribute, cmp.Or(d.Before, "(not set)"), "->", cmp.Or(d.After, "(not set)"))
		}
		all = append(all, strings.Join(words, " "))
	}
	for _, s := range e.Steps() {
		if line := s.outline(); line != "" && (s.Action == ActionImport || !slices.ContainsFunc(s.blocks(), func(at Address) bool { return touched[at] })) {
			all = append(all, line)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Digest returns a digest of the outline.
func (e Effect) Digest() string { return DigestOfOutline(e.Outline()) }

// DigestOfOutline returns the digest of the outline of an effect: 32 hexadecimal digits.
func DigestOfOutline(lines []string) string {
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:16])
}

// blocks returns the addresses of the blocks that a step is about.
func (s *Step) blocks() []Address {
	all := []Address{ProviderAddress(s.Provider), poolAddress(s.Provider, s.Pool), imageAddress(s.ImageKind, s.Image), uploadAddress(s.Provider, s.Image),
		poolAddress(s.Provider, s.Pool) + Address(".node."+s.Node)}
	for label := range strings.SplitSeq(s.Label, ",") {
		all = append(all, OfferAddress(s.Provider, s.Pool, label), Address("label."+label))
	}
	return all
}

// outline returns the line of an import or a removal, and "" for any other step.
func (s *Step) outline() string {
	if s.Action != ActionImport && s.Action != ActionForget && !s.Removes() {
		return ""
	}
	words := []string{s.String()}
	for _, part := range [][2]string{{"provider", s.Provider}, {"pool", s.Pool}, {"label", s.Label}, {"node", s.Node}, {"image", s.Image}} {
		if part[1] != "" {
			words = append(words, part[0]+" "+part[1])
		}
	}
	if s.Action == ActionImport {
		words = append(words, "cloud id "+s.External)
	}
	return strings.Join(words, " ")
}

// Only returns the part of the plan that belongs to the effect: its steps, and their dependencies.
func (p Plan) Only(e Effect) Plan {
	chosen := map[string]bool{}
	for _, s := range e.Steps() {
		chosen[s.ID] = true
	}
	p.Steps = withNeeds(slices.Clone(p.Steps), func(s Step) bool { return chosen[s.ID] })
	return p
}

// InputFiles is the attribute of a difference of the local input files of an image, which are not in the configuration.
const InputFiles = "input files"

// inputDifferences returns a difference for each image whose local input files differ. The configuration does not contain them.
func inputDifferences(base, head Side) (all []resources.Difference) {
	for name, before := range base.Observed.Inputs {
		img := head.Desired.Image(head.Desired.Moves.Image(name))
		if img == nil || before.Hash == "" {
			continue
		}
		now := head.Observed.Inputs[img.Name]
		if now.Hash == "" || now.Hash == before.Hash {
			continue
		}
		var words []string
		for _, f := range fileChanges(before.Files, now.Files) {
			words = append(words, f.Path+" ("+string(f.Change)+")")
		}
		all = append(all, resources.Difference{Address: img.Ref().String(), Attribute: InputFiles, After: strings.Join(words, ", "), Class: "replacing", Source: img.Source})
	}
	return all
}

// task is the purpose of a step: its kind, and the object that it changes or the place of the object that it creates. Two plans may have several
// steps with the same task, such as launches for min_ready.
type task struct {
	kind                                                Kind
	provider, pool, label, node, image, format, request string
	slot                                                int64
	external, thing                                     string
	record                                              resources.Key
}

func taskOf(s *Step) task {
	t := task{kind: s.Kind, provider: s.Provider, pool: s.Pool, label: s.Label, node: s.Node, image: s.Image, format: s.Format,
		request: s.Request, slot: s.Slot, external: s.External, thing: s.Type, record: s.Record}
	if s.Kind == KindServe || s.Kind == KindDecline {
		t.provider, t.pool, t.label = "", "", "" // of its nodes, which are attributes
	}
	return t
}

// attempt is a step of one side with the attributes of its work.
type attempt struct {
	step       *Step
	task       task
	attributes map[string]string
	material   resources.Hashes // of the offer, image or machine that it uses: also attributes that are not shown
	former     resources.Hashes // the same before moves
	matched    bool             // the other plan has it too, with these or other attributes
}

func (a *attempt) same(b *attempt) bool {
	return maps.Equal(a.attributes, b.attributes) && (slices.Equal(a.material, b.material) || len(a.material) > 0 && b.former.Same(a.material.Current()))
}

// matched are the steps of two plans by their tasks. Of the steps with the same task, those with the same attributes are common;
// of the rest as many are altered as both plans have.
type matched struct {
	common         int
	altered        []matchedPair
	added, dropped []*attempt
}

type matchedPair struct{ base, head *attempt }

// match matches the steps of two plans, without those of the skipped providers.
func match(base, head Side, skipped []string) (m matched) {
	earlier, before := base.attempts(head.Desired.Moves, skipped), map[task][]*attempt{}
	for _, a := range earlier {
		before[a.task] = append(before[a.task], a)
	}
	take := func(t task, i int) *attempt {
		list := before[t]
		taken := list[i]
		taken.matched = true
		list[i] = list[len(list)-1]
		before[t] = list[:len(list)-1]
		return taken
	}
	var rest []*attempt
	for _, a := range head.attempts(nil, skipped) {
		if i := slices.IndexFunc(before[a.task], func(b *attempt) bool { return b.same(a) }); i >= 0 {
			take(a.task, i)
			m.common++
		} else {
			rest = append(rest, a)
		}
	}
	for _, a := range rest {
		if len(before[a.task]) > 0 {
			m.altered = append(m.altered, matchedPair{take(a.task, 0), a})
		} else {
			m.added = append(m.added, a)
		}
	}
	m.dropped = slices.DeleteFunc(earlier, func(a *attempt) bool { return a.matched })
	return m
}

// attempts returns the steps of the plan, except those of the skipped providers, with the names that their blocks have after the
// moves.
func (side Side) attempts(moves resources.Moves, skipped []string) []*attempt {
	all, machines := make([]*attempt, 0, len(side.Plan.Steps)), side.machines()
	for i := range side.Plan.Steps {
		a := side.attempt(&side.Plan.Steps[i], machines)
		present := presentStep(*a.step, moves)
		a.task = taskOf(&present)
		if image, ok := a.attributes["image"]; ok && len(moves) > 0 {
			a.attributes["image"] = presentImage(image, moves)
		}
		if !slices.Contains(skipped, present.Provider) {
			all = append(all, a)
		}
	}
	return all
}

// machine names a configured static node.
type machine struct{ provider, pool, node string }

func (side Side) machines() map[machine]*resources.StaticNode {
	all := map[machine]*resources.StaticNode{}
	for i := range side.Desired.Providers {
		p := &side.Desired.Providers[i]
		for j := range p.Pools {
			for k := range p.Pools[j].Nodes {
				n := &p.Pools[j].Nodes[k]
				all[machine{p.Name, p.Pools[j].Name, n.Name}] = n
			}
		}
	}
	return all
}

// attempt returns a step with the attributes of its work. Its task is not set yet.
func (side Side) attempt(s *Step, machines map[machine]*resources.StaticNode) *attempt {
	a := &attempt{step: s, attributes: map[string]string{}}
	for name, value := range map[string]string{
		"build": s.Build, "version": s.Version, "formats": strings.Join(s.Formats, ", "), "upload": s.Upload, "zone": s.Zone,
		"nodes": strings.Join(s.Nodes, ", "), "becomes": string(s.Becomes),
	} {
		if value != "" {
			a.attributes[name] = value
		}
	}
	for _, d := range s.Declined {
		a.attributes["declined "+d.Provider+"/"+d.Pool] = d.Reason
	}
	maps.Copy(a.attributes, s.Values)
	delete(a.attributes, priceValue) // a change of a price alone changes no step
	provider, _ := side.Desired.Provider(s.Provider)
	switch img := side.Desired.Image(s.Image); {
	case s.Kind == KindBuild && img != nil:
		a.material = ImageHashes(img.Hashes, side.Observed.Inputs[s.Image].Hash)
	case s.Kind == KindUpload && img != nil && provider != nil:
		a.material, _ = provider.ImageSettings(img.Ref())
	case provider == nil || provider.Pool(s.Pool) == nil:
	case s.Kind == KindLaunch:
		if offer := provider.Pool(s.Pool).Offer(s.Label); offer != nil {
			a.material, a.former = offer.Hashes, offer.Former
		}
	case s.Kind == KindRegisterSlot, s.Kind == KindCheckSlot:
		if n := machines[machine{s.Provider, s.Pool, s.Node}]; n != nil {
			a.material, a.former = n.Hashes, n.Former
		}
	}
	return a
}

// attributeChanges returns the attributes that differ.
func attributeChanges(before, now map[string]string) (changes []Change) {
	names := maps.Clone(before)
	maps.Copy(names, now)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if before[name] != now[name] {
			changes = append(changes, Change{Attribute: name, Before: before[name], After: now[name]})
		}
	}
	return changes
}

// presentStep returns a step of the base with the names of blocks after the moves of the head.
func presentStep(s Step, moves resources.Moves) Step {
	if len(moves) == 0 {
		return s
	}
	image := moves.Present(resources.BlockRef{Type: string(s.ImageKind), Name: s.Image})
	machine := moves.Present(resources.BlockRef{Type: "node", Provider: s.Provider, Pool: s.Pool, Name: s.Node})
	labels := strings.Split(s.Label, ",")
	for i := range labels {
		labels[i] = moves.Present(resources.BlockRef{Type: "label", Name: labels[i]}).Name
	}
	s.Image, s.Provider, s.Pool, s.Node, s.Label = image.Name, machine.Provider, machine.Pool, machine.Name, strings.Join(labels, ",")
	switch s.Record.Kind {
	case resources.KindProvider:
		s.Record.ID = moves.Provider(s.Record.ID)
	case resources.KindImage:
		s.Record.ID = moves.Image(s.Record.ID)
	}
	return s
}

// presentImage returns an image attribute of a launch with the name of the image after the moves.
func presentImage(value string, moves resources.Moves) string {
	kind, name, ok := strings.Cut(strings.Trim(value, `"`), ".")
	if !ok {
		return value
	}
	return jsonText(moves.Present(resources.BlockRef{Type: kind, Name: name}).String())
}
