package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/npctl/npctl/resources"
)

// copied returns a model that changes nothing in m.
func (m *model) copied() *model {
	seen := *m.Observed
	seen.Files = slices.Clone(seen.Files)
	seen.Providers = maps.Clone(seen.Providers)
	for name, view := range seen.Providers {
		view.Instances, view.Images, view.Leftovers = slices.Clone(view.Instances), slices.Clone(view.Images), slices.Clone(view.Leftovers)
		seen.Providers[name] = view
	}
	seen.Records = seen.Records.Clone()
	for i, n := range seen.Records.Nodes {
		c := *n
		seen.Records.Nodes[i] = &c
	}
	for i, b := range seen.Records.Builds {
		c := *b
		c.Files = slices.Clone(b.Files)
		seen.Records.Builds[i] = &c
	}
	return &model{Observed: &seen, next: m.next}
}

// things describes everything in the environment: old objects by ID, new ones by place and attributes.
func (m *model) things(isNew func(id string) bool) map[string]int {
	all := map[string]int{}
	id := func(id string) string {
		if isNew(id) {
			return "new"
		}
		return id
	}
	for _, n := range m.Records.Nodes {
		all[fmt.Sprint("node ", id(n.ID), n.State, n.Provider, n.Pool, n.Labels, n.Hostname, n.Slot, n.Hash)]++
	}
	for _, b := range m.Records.Builds {
		all[fmt.Sprint("build ", id(b.ID), b.Image, b.State, b.Hash)]++
		all[fmt.Sprint("files of build ", id(b.ID), b.Image)] += len(b.Files)
	}
	for _, u := range m.Records.Uploads {
		all[fmt.Sprint("upload ", id(u.ID), u.Image, u.Provider, u.Format, u.State)]++
	}
	for _, p := range m.Records.Providers {
		all["provider "+p.Name]++
	}
	for name, view := range m.Providers {
		for _, i := range view.Instances {
			all["server "+name+" "+id(i.ID)]++
		}
		for _, i := range view.Images {
			all["image "+name+" "+id(i.ID)]++
		}
		for _, l := range view.Leftovers {
			all["leftover "+name+" "+id(l.ID)]++
		}
	}
	for _, f := range m.Files {
		all["file "+id(BuildIDOfFile(f.Name))]++
	}
	return all
}

// outcomes executes a plan and returns, for each step, what it adds to the environment (positive) and removes from it.
func (m *model) outcomes(t *rapid.T, d resources.Desired, p Plan) map[string]map[string]int {
	m.uploaded, m.built, m.current = map[imageAt]string{}, map[string]string{}, p
	first := m.next
	isNew := func(id string) bool {
		digits := strings.TrimLeft(strings.NewReplacer("server-", "", "image-", "").Replace(id), "0")
		n := 0
		_, err := fmt.Sscan(digits, &n)
		if len(id) == 32 { // a build
			_, err = fmt.Sscanf(digits, "%x", &n)
		}
		return err == nil && n > first && n < 1000
	}
	all := map[string]map[string]int{}
	for _, s := range p.Steps {
		before := m.things(isNew)
		m.step(t, d, s)
		all[s.ID] = difference(m.things(isNew), before)
	}
	return all
}

func difference(a, b map[string]int) map[string]int {
	d := maps.Clone(a)
	for name, n := range b {
		if d[name] -= n; d[name] == 0 {
			delete(d, name)
		}
	}
	return d
}

func plus(total, more map[string]int, factor int) {
	for name, n := range more {
		if total[name] += factor * n; total[name] == 0 {
			delete(total, name)
		}
	}
}

// drawChange draws a change of a configuration.
func drawChange(t *rapid.T, base resources.Desired) resources.Desired {
	head := base
	head.Labels, head.Images, head.Providers = slices.Clone(base.Labels), slices.Clone(base.Images), slices.Clone(base.Providers)
	for range rapid.IntRange(0, 3).Draw(t, "changes") {
		change := rapid.IntRange(0, 5).Draw(t, "change")
		switch {
		case change == 0 && len(head.Labels) > 0:
			i := rapid.IntRange(0, len(head.Labels)-1).Draw(t, "label")
			head.Labels[i].MinReady = rapid.Int64Range(0, 4).Draw(t, "min_ready")
		case change == 1 && len(head.Images) > 0:
			i := rapid.IntRange(0, len(head.Images)-1).Draw(t, "image")
			head.Images[i].Hashes, head.Images[i].Keep = resources.Hashes{drawHash(t)}, rapid.IntRange(1, 3).Draw(t, "keep")
		case change == 2 && len(head.Providers) > 0:
			i := rapid.IntRange(0, len(head.Providers)-1).Draw(t, "provider")
			head.Providers[i] = drawProvider(t, head.Providers[i].Name, head)
		case change == 3 && len(head.Providers) > 0:
			head.Providers = head.Providers[:len(head.Providers)-1]
		case change == 4 && len(head.Providers) < 3:
			head.Providers = append(head.Providers, drawProvider(t, fmt.Sprintf("cloud%d", len(head.Providers)), head))
		case change == 5 && len(head.Providers) > 0:
			i := rapid.IntRange(0, len(head.Providers)-1).Draw(t, "provider")
			pools := slices.Clone(head.Providers[i].Pools)
			for j := range pools {
				pools[j].Offers = slices.Clone(pools[j].Offers)
				for k := range pools[j].Offers {
					pools[j].Offers[k].Hashes = resources.Hashes{drawHash(t)}
				}
			}
			head.Providers[i].Pools = pools
		}
	}
	return head
}

// The effect of a change is exactly the difference between the results of both plans.
func TestEffectIsTheDifferenceOfBothResults(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, m := drawDesired(t), drawWorld(t)
		head := drawChange(t, base)
		seen := m.observe()
		sides := [2]Side{{base, seen, Compute(base, seen, Options{})}, {head, seen, Compute(head, seen, Options{})}}
		var of [2]map[string]map[string]int
		total := map[string]int{}
		for i, factor := range []int{-1, 1} {
			of[i] = m.copied().outcomes(t, sides[i].Desired, sides[i].Plan)
			for _, one := range of[i] {
				plus(total, one, factor)
			}
		}
		pairs := match(sides[0], sides[1], nil)
		expected := map[string]int{}
		for _, a := range pairs.added {
			plus(expected, of[1][a.step.ID], 1)
		}
		for _, a := range pairs.dropped {
			plus(expected, of[0][a.step.ID], -1)
		}
		for _, pair := range pairs.altered {
			plus(expected, of[1][pair.head.step.ID], 1)
			plus(expected, of[0][pair.base.step.ID], -1)
		}
		for _, file := range deletedConversions(pairs, sides[1].Plan) { // by a step of both plans, with a file in one of them
			plus(expected, of[1][file], 1)
			plus(expected, of[0][file], -1)
		}
		if !maps.Equal(total, expected) {
			t.Fatalf("the results differ by %v,\nthe effect says %v\nbase:\n%s\nhead:\n%s", total, expected, lines(sides[0].Plan), lines(sides[1].Plan))
		}
		e := EffectOf(sides[0], sides[1], nil)
		if n := len(e.Added) + len(e.Altered) + e.Common; n != len(sides[1].Plan.Steps) {
			t.Fatalf("the effect covers %d of %d steps of the head", n, len(sides[1].Plan.Steps))
		}
		if n := len(e.Dropped) + len(e.Altered) + e.Common; n != len(sides[0].Plan.Steps) {
			t.Fatalf("the effect covers %d of %d steps of the base", n, len(sides[0].Plan.Steps))
		}
	})
}

// deletedConversions returns the IDs of steps of both plans that delete the files of a build for which only one of the plans has a
// conversion.
func deletedConversions(pairs matched, p Plan) (ids []string) {
	converted, own := map[string]bool{}, map[string]bool{}
	for _, one := range slices.Concat(pairs.added, pairs.dropped) {
		own[one.step.ID] = true
		if one.step.Kind == KindConvert {
			converted[one.step.Build] = true
		}
	}
	for _, s := range p.Steps {
		if s.Kind == KindDeleteFile && converted[s.Build] && !own[s.ID] {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// Without a change there is no effect, whatever the fleet is doing.
func TestNoChangeHasNoEffect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, m := drawDesired(t), drawWorld(t)
		seen := m.observe()
		side := Side{d, seen, Compute(d, seen, Options{})}
		if e := EffectOf(side, Side{d, seen, Compute(d, seen, Options{})}, nil); e.String() != "No effect." || e.Common != len(side.Plan.Steps) {
			t.Fatalf("%s, with %d of %d common steps", e, e.Common, len(side.Plan.Steps))
		}
	})
}

// renamed returns a configuration in which a provider, a pool, a label, an image and a static node have other names, with the moves.
func renamed(d resources.Desired) resources.Desired {
	name := func(old string) string {
		switch old {
		case "cloud0", "pool0", "label0", "image0", "metal":
			return old + "x" // in the same order
		}
		return old
	}
	move := func(from resources.BlockRef) {
		to := from
		to.Name, to.Provider, to.Pool = name(from.Name), name(from.Provider), name(from.Pool)
		from.Provider, from.Pool = to.Provider, to.Pool
		d.Moves = append(d.Moves, resources.Move{From: from, To: to})
	}
	move(resources.BlockRef{Type: "label", Name: "label0"})
	move(resources.BlockRef{Type: "diskimage", Name: "image0"})
	move(resources.BlockRef{Type: "provider", Name: "cloud0"})
	d.Labels, d.Images, d.Providers = slices.Clone(d.Labels), slices.Clone(d.Images), slices.Clone(d.Providers)
	for i := range d.Labels {
		d.Labels[i].Name = name(d.Labels[i].Name)
	}
	for i := range d.Images {
		d.Images[i].Name = name(d.Images[i].Name)
	}
	for i := range d.Providers {
		p := &d.Providers[i]
		former := p.Name
		p.Name, p.Pools = name(p.Name), slices.Clone(p.Pools)
		for j := range p.Pools {
			pool := &p.Pools[j]
			move(resources.BlockRef{Type: "pool", Provider: former, Name: pool.Name})
			pool.Offers, pool.Nodes = slices.Clone(pool.Offers), slices.Clone(pool.Nodes)
			for k := range pool.Offers {
				o := &pool.Offers[k]
				o.Label, o.Image.Name = name(o.Label), name(o.Image.Name)
			}
			for k := range pool.Nodes {
				move(resources.BlockRef{Type: "node", Provider: former, Pool: pool.Name, Name: pool.Nodes[k].Name})
				pool.Nodes[k].Name, pool.Nodes[k].Labels = name(pool.Nodes[k].Name), []string{name("label0")}
			}
			pool.Name = name(pool.Name)
		}
	}
	d.Moves = slices.DeleteFunc(d.Moves, func(m resources.Move) bool { return m.From == m.To })
	byName(d.Labels, func(l resources.Label) string { return l.Name })
	byName(d.Images, func(i resources.Image) string { return i.Name })
	byName(d.Providers, func(p resources.Provider) string { return p.Name })
	return d
}

func byName[T any](list []T, name func(T) string) {
	slices.SortFunc(list, func(a, b T) int { return strings.Compare(name(a), name(b)) })
}

// New names alone change records and do nothing else.
func TestTheEffectOfNewNamesIsMoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, m := drawDesired(t), drawWorld(t)
		head := renamed(base)
		seen := m.observe()
		after := seen
		after.Providers, after.Formats = maps.Clone(seen.Providers), maps.Clone(seen.Formats)
		after.Providers["cloud0x"], after.Formats["cloud0x"] = seen.Providers["cloud0"], seen.Formats["cloud0"] // the listing is under the new name
		was, is := Side{base, seen, Compute(base, seen, Options{})}, Side{head, after, Compute(head, after, Options{})}
		e := EffectOf(was, is, nil)
		for _, s := range e.Added {
			if s.Action != ActionMove {
				t.Fatalf("added: %s\nbase:\n%s\nhead:\n%s", s.ID, lines(was.Plan), lines(is.Plan))
			}
		}
		if len(e.Dropped)+len(e.Altered) > 0 {
			t.Fatalf("no longer: %s\ndifferently: %s\nbase:\n%s\nhead:\n%s", lines(Plan{Steps: e.Dropped}), lines(Plan{Steps: e.Altered}), lines(was.Plan), lines(is.Plan))
		}
	})
}

// The effect of changes while the fleet is at work: requests wait, a node has been used, and a launch is due.
func TestEffectWhileTheFleetIsAtWork(t *testing.T) {
	atWork := func() (resources.Desired, Observed) {
		d, o := fleet(), settled()
		o.Records.Nodes[0].State = resources.StateUsed
		o.Records.Requests = []*resources.Request{request("1", "small"), request("2", "small"), request("3", "small"), request("4", "small")}
		d.Providers[0].Pools[0].Offers[0].Values = map[string]string{"flavor": `"medium"`}
		return d, o
	}
	effect := func(change func(*resources.Desired)) Effect {
		base, o := atWork()
		head, _ := atWork()
		change(&head)
		return EffectOf(Side{base, o, Compute(base, o, Options{})}, Side{head, o, Compute(head, o, Options{})}, nil)
	}
	none := func(*resources.Desired) {}
	cases := []struct {
		name   string
		change func(*resources.Desired)
		want   string // the numbers of added, dropped, altered and common steps
	}{
		{"none", none, "0 0 0 7"},
		{"a higher limit serves more requests, and then min_ready", func(d *resources.Desired) { d.Providers[0].Pools[0].MaxServers = ptr(6) }, "3 0 0 7"},
		{"a lower limit serves fewer", func(d *resources.Desired) { d.Providers[0].Pools[0].MaxServers = ptr(3) }, "0 2 0 5"},
		{"another flavor", func(d *resources.Desired) {
			d.Providers[0].Pools[0].Offers[0].Values, d.Providers[0].Pools[0].Offers[0].Hashes = map[string]string{"flavor": `"large"`}, resources.Hashes{"v1:other"}
		}, "3 2 3 2"},
		{"a limit of an image", func(d *resources.Desired) { d.Images[0].Keep = 1 }, "0 0 0 7"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e := effect(c.change)
			if got := fmt.Sprint(len(e.Added), len(e.Dropped), len(e.Altered), e.Common); got != c.want {
				t.Errorf("got %s, want %s\nadded:\n%s\nno longer:\n%s\ndifferently:\n%s", got, c.want, lines(Plan{Steps: e.Added}), lines(Plan{Steps: e.Dropped}), lines(Plan{Steps: e.Altered}))
			}
			for _, s := range e.Altered {
				if s.Kind == KindLaunch && !slices.Contains(s.Changes, Change{Attribute: "flavor", Before: `"medium"`, After: `"large"`}) {
					t.Errorf("%s: changes %v", s.ID, s.Changes)
				}
			}
		})
	}
}

// The outline of a change is the same whatever the fleet is doing, and whatever objects there are.
func TestOutlineDoesNotDependOnTheMoment(t *testing.T) {
	difference := func(address, attribute, before, after string) resources.Difference {
		return resources.Difference{Address: address, Attribute: attribute, Before: before, After: after}
	}
	base := fleet()
	head := fleet()
	head.Providers[0].Pools[0].Offers[0].Hashes = resources.Hashes{"v1:other"}
	head.Labels[0].MinReady = 3
	differences := []resources.Difference{difference("provider.cloud.pool.main.label.small", "flavor", `"medium"`, `"large"`), difference("label.small", "min_ready", "2", "3")}
	var outlines []string
	for _, seen := range []func(*Observed){
		func(*Observed) {},
		func(o *Observed) { o.Records.Nodes[0].State = resources.StateInUse },
		func(o *Observed) {
			o.Records.Nodes[0].State, o.Records.Nodes[1].State = resources.StateInUse, resources.StateInUse
		},
		func(o *Observed) {
			o.Records.Requests = []*resources.Request{request("1", "small"), request("2", "small"), request("3", "small")}
		},
		func(o *Observed) { *o = empty() },
	} {
		o := settled()
		seen(&o)
		e := EffectOf(Side{base, o, Compute(base, o, Options{})}, Side{head, o, Compute(head, o, Options{})}, differences)
		outlines = append(outlines, strings.Join(e.Outline(), "\n"))
	}
	want := "setting label.small min_ready 2 -> 3\nsetting provider.cloud.pool.main.label.small flavor \"medium\" -> \"large\""
	for i, got := range outlines {
		if got != want {
			t.Errorf("outline %d:\n%s\nwant:\n%s", i, got, want)
		}
	}
}

// A removal in a block that the change does not touch is part of the outline, and so is an import.
func TestOutlineHasRemovalsInOtherBlocks(t *testing.T) {
	remove := Step{Kind: KindDeleteNode, Provider: "cloud", Pool: "main", Label: "small", Record: resources.Key{Kind: resources.KindNode, ID: "0000000007"}}
	adopt := Step{Kind: KindImportNode, Provider: "cloud", Pool: "main", Label: "small", External: "4f1c"}
	e := Effect{Added: []Step{remove, adopt, {Kind: KindLaunch, Provider: "cloud", Pool: "main", Label: "small"}}}
	want := []string{"delete node provider cloud pool main label small", "import node provider cloud pool main label small cloud id 4f1c"}
	if got := e.Outline(); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	e.Differences = []resources.Difference{{Address: "label.small", Attribute: "min_ready", Before: "1"}}
	if got := e.Outline(); !slices.Equal(got, []string{want[1], "setting label.small min_ready 1 -> (not set)"}) {
		t.Errorf("with a difference: %q", got)
	}
	if e.Digest() == (Effect{Differences: e.Differences}).Digest() || len(e.Digest()) != 32 {
		t.Error("the digest does not depend on the import")
	}
}

// Both plans of a comparison are computed at the same time: neither may change what they share. The race detector finds that.
func TestPlansOfOneWorldMayBeComputedAtTheSameTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, m := drawDesired(t), drawWorld(t)
		head, seen := renamed(drawChange(t, base)), m.observe()
		seen.RequestedBuilds, seen.LockHolder = []string{"image0"}, &LockHolder{Operation: "apply"}
		seen.Records.Requests = []*resources.Request{request("1", "label0"), request("2", "label1")}
		var plans [4]string
		var all sync.WaitGroup
		for i, d := range []resources.Desired{base, head, base, head} {
			all.Go(func() { plans[i] = lines(Compute(d, seen, Options{})) })
		}
		all.Wait()
		if plans[0] != plans[2] || plans[1] != plans[3] {
			t.Fatalf("plans differ:\n%s\n%s\n%s\n%s", plans[0], plans[2], plans[1], plans[3])
		}
	})
}
