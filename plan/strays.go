package plan

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/npctl/npctl/resources"
)

// ourName is how nodes are named; a server so named without our marks is worth a note.
var ourName = regexp.MustCompile(`^np\d{10}$`)

// strays plans the removal of what carries our marks and belongs to no record. Such a thing is removed only when it was
// seen twice, leak_age apart, and only leak_limit of them within leak_age: state restored from a backup makes everything
// that was made since look leaked.
func (c *computation) strays() {
	left := c.want.Settings.LeakLimit - c.lately()
	c.oldState()
	slices.SortFunc(c.world.strays, func(a, b stray) int {
		return cmp.Or(cmp.Compare(a.provider, b.provider), cmp.Compare(a.kind, b.kind), cmp.Compare(a.id, b.id))
	})
	held := 0
	for _, s := range c.world.strays {
		reason, evidence := c.strayReason(s)
		switch {
		case reason == "":
			continue
		case c.isBegun(s):
		case left <= 0 && !c.opt.Destroy:
			held++
			continue
		default:
			left--
		}
		c.add(Step{Address: strayAddress(s), Action: ActionDelete, Thing: ThingLeftover, Reason: reason,
			Evidence: evidence, Provider: s.provider, Type: s.kind, External: s.id,
			Touches: []Fingerprint{{Subject: string(strayAddress(s)), Digest: digest(s.marks.ID, s.id)}}})
	}
	if held > 0 {
		c.note(Warning, "leak-limit", "", c.want.Settings.Source,
			"%s to be deleted: leak_limit allows %d in %s", plural(held, "more leaked thing")+" "+waitsOr(held), c.want.Settings.LeakLimit, c.want.Settings.LeakSightings)
	}
}

func waitsOr(n int) string {
	if n == 1 {
		return "waits"
	}
	return "wait"
}

// lately counts the leaks whose deletion began within leak_age.
func (c *computation) lately() int {
	n := 0
	for _, s := range c.seen.Records.Sightings {
		if c.isRecent(s) {
			n++
		}
	}
	return n
}

func (c *computation) isRecent(s *resources.Sighting) bool {
	return !s.Deleted.IsZero() && c.seen.Now.Sub(s.Deleted) < c.want.Settings.LeakSightings
}

// isBegun reports whether the deletion of a stray began lately, so that leak_limit has counted it.
func (c *computation) isBegun(s stray) bool {
	seen := c.sighting(s)
	return seen != nil && c.isRecent(seen)
}

// oldState notes that the state is older than what is in the clouds, and has leaks left alone then: they may be nodes in use
// whose records were lost.
func (c *computation) oldState() {
	var first *resources.Sighting
	n := 0
	for _, s := range c.world.strays {
		if seen := c.sighting(s); seen != nil && seen.Ahead {
			if n++; first == nil || seen.Of.ID < first.Of.ID {
				first = seen
			}
		}
	}
	if n == 0 || c.opt.Destroy {
		return
	}
	held := "nothing without a record is deleted until -allow-destroy=all says that it may be"
	if c.opt.AllowDestroy == AllowAll {
		held = "-allow-destroy=all: what has no record is deleted as leaked"
	} else {
		c.old = true
	}
	c.note(Warning, NoteOldState, "", resources.Source{}, "the state is older than the clouds: %s there carry ids that this state never gave (such as %s); "+
		"it was restored from a backup, or is a copy; %s", plural(n, "thing"), first.Of, held)
}

// NoteOldState is the code of the note that the state is older than the clouds.
const NoteOldState = "old-state"

// orphans plans the removal of what was made for a node that has no server any more, and returns the steps: whoever
// deleted the server behind our back left its floating IP, and once the record is gone it is a leak like any other.
func (c *computation) orphans(n *resources.Node) []string {
	if _, found := c.world.instances[n.ID]; found {
		return nil // they go with it
	}
	parts := c.world.parts[n.ID]
	slices.SortFunc(parts, func(a, b stray) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.id, b.id)) })
	var steps []string
	for _, s := range parts {
		if s.inUse {
			continue
		}
		steps = append(steps, c.add(Step{Address: strayAddress(s), Action: ActionDelete, Thing: ThingLeftover, Reason: ReasonOrphaned,
			Evidence: []Fact{{"name", s.name}, {"node", n.ID}}, Provider: s.provider, Type: s.kind, External: s.id,
			Touches: []Fingerprint{{Subject: string(strayAddress(s)), Digest: digest(s.marks.ID, s.id)}}}))
	}
	return steps
}

func strayAddress(s stray) Address {
	if s.provider == "" {
		return Address(s.kind + "." + s.id)
	}
	return ProviderAddress(s.provider) + Address("."+s.kind+"."+s.id)
}

// strayReason says why a stray thing is to be removed, or nothing when it has to be seen once more.
func (c *computation) strayReason(s stray) (Reason, []Fact) {
	evidence := []Fact{{"name", s.name}, {string(s.marks.Kind), s.marks.ID}}
	if s.inUse {
		c.note(Warning, "leak-in-use", strayAddress(s), resources.Source{},
			"%s %s carries our marks, has no record, and is in use; it is left alone", s.kind, s.id)
		return "", nil
	}
	reason, what := ReasonLeaked, "has no record"
	switch {
	case s.of.Kind == resources.KindBuild && c.busy(s.of):
		return "", nil // the build is at work
	case s.of.Kind == resources.KindBuild:
		return ReasonUnfinished, evidence
	case s.of.Kind != "":
		reason, what = ReasonDuplicate, fmt.Sprintf("is not the one that %s records", s.of)
		evidence = append(evidence, Fact{"record", s.of.String()})
	}
	if c.opt.Destroy {
		if reason == ReasonLeaked {
			reason = ReasonDestroy
		}
		return reason, evidence
	}
	if c.old {
		c.note(Info, "leak-held", strayAddress(s), resources.Source{},
			"%s %s (%s) carries our marks and %s; it is left alone, since the state is older than the clouds", s.kind, s.name, s.id, what)
		return "", nil
	}
	seen := c.sighting(s)
	if seen == nil || c.seen.Now.Sub(seen.First) < c.want.Settings.LeakSightings {
		c.note(Info, "leak-sighted", strayAddress(s), resources.Source{},
			"%s %s (%s) carries our marks and %s; it is deleted if it is still there %s after an apply has seen it",
			s.kind, s.name, s.id, what, c.want.Settings.LeakSightings)
		return "", nil
	}
	return reason, append(evidence, Fact{"first seen", seen.First.UTC().Format(time.RFC3339)})
}

func (c *computation) sighting(s stray) *resources.Sighting {
	key := (&resources.Sighting{Provider: s.provider, Type: s.kind, External: s.id}).Key().ID
	i := slices.IndexFunc(c.seen.Records.Sightings, func(r *resources.Sighting) bool { return r.Key().ID == key })
	if i < 0 {
		return nil
	}
	return c.seen.Records.Sightings[i]
}

// Sightings returns the sighting records as they should be after these observations: new strays first seen now, known
// ones counted again, and, under gone, those of providers that were looked at and have them no more. Those that were deleted
// within age stay, since they count.
func Sightings(seen Observed, age time.Duration) (now []*resources.Sighting, gone []resources.Key) {
	w := newWorld(resources.Desired{}, resources.Desired{}, seen)
	there := map[resources.Key]bool{}
	for _, s := range w.strays {
		record := resources.Sighting{Provider: s.provider, Type: s.kind, External: s.id, First: seen.Now,
			Of: resources.Key{Kind: s.marks.Kind, ID: s.marks.ID}}
		for _, old := range seen.Records.Sightings {
			if old.Key() == record.Key() {
				record = *old
			}
		}
		record.Last, record.Count = seen.Now, record.Count+1
		there[record.Key()] = true
		now = append(now, &record)
	}
	for _, old := range seen.Records.Sightings {
		view, asked := seen.Providers[old.Provider]
		asked = asked || old.Provider == "" && seen.Files != nil
		isCounted := !old.Deleted.IsZero() && seen.Now.Sub(old.Deleted) < age
		if asked && view.Err == "" && !there[old.Key()] && !isCounted {
			gone = append(gone, old.Key())
		}
	}
	return now, gone
}

// foreigners notes what others have in our projects: how much, and what looks like ours without being so.
func (c *computation) foreigners() {
	for _, provider := range c.world.names {
		view, looked := c.view(provider)
		if !looked {
			continue
		}
		var others int
		var use resources.Amounts
		adopted := c.world.adopted(provider)
		for k := range view.Instances {
			i := &view.Instances[k]
			if i.Marks.Installation == c.seen.Installation || i.Marks.Installation == "" && adopted[i.ID] != nil {
				continue
			}
			others++
			use = plus(use, i.Resources)
			if ourName.MatchString(i.Name) || i.Marks.Installation != "" {
				c.note(Info, "look-alike", ProviderAddress(provider)+Address(".server."+i.ID), resources.Source{},
					"server %s (%s) looks like a node but %s; it is left alone", i.Name, i.ID, lookAlike(i.Marks))
			}
		}
		if others > 0 {
			c.note(Info, "unmanaged", ProviderAddress(provider), c.source(provider),
				"%s of others in the project, left alone%s", plural(others, "server"), cores(use))
		}
	}
}

func lookAlike(m resources.Marks) string {
	if m.Installation == "" {
		return "carries no marks of npctl"
	}
	return "belongs to installation " + m.Installation
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func cores(use resources.Amounts) string {
	if use.Cores == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s, %d MiB of RAM)", plural(int(use.Cores), "core"), use.RAM)
}
