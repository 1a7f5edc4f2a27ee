package plan

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// ourName matches the names of nodes. An instance with such a name and without our ownership tags is a look-alike.
var ourName = regexp.MustCompile(`^np\d{10}$`)

// leakPlanner plans the deletion of leaks. A leak is deleted only after two sightings that are leak_age apart, and only
// leak_limit of them within leak_age: after a restore of the state from a backup, everything that was created since
// looks leaked.
type leakPlanner struct {
	world         *world
	draft         *draft
	leaks         []leak
	stateOutdated bool // the state is older than the clouds, and leaks are kept
}

// planLeaks returns all leaks, including the lost ones.
func planLeaks(w *world, d *draft, lost []leak) []leak {
	lp := &leakPlanner{world: w, draft: d, leaks: slices.Concat(w.leaks, lost)}
	left := lp.world.want.Settings.LeakLimit
	for _, s := range w.seen.Records.Sightings {
		if lp.isRecent(s) {
			left--
		}
	}
	lp.oldState()
	slices.SortFunc(lp.leaks, func(a, b leak) int {
		return cmp.Or(cmp.Compare(a.provider, b.provider), cmp.Compare(a.kind, b.kind), cmp.Compare(a.id, b.id))
	})
	waiting := 0
	for _, s := range lp.leaks {
		reason, evidence := lp.leakReason(s)
		switch {
		case reason == "":
			continue
		case lp.isRecent(lp.sighting(s)): // leak_limit has counted it
		case left <= 0 && !lp.world.opt.Destroy:
			waiting++
			continue
		default:
			left--
		}
		lp.draft.add(Step{Address: leakAddress(s), Kind: KindDeleteLeftover, Reason: reason,
			Evidence: evidence, Provider: s.provider, Type: s.kind, External: s.id,
			Preconditions: []Fingerprint{{Subject: string(leakAddress(s)), Digest: digest(s.marks.ID, s.id)}}})
	}
	if waiting > 0 {
		lp.draft.note(Warning, "leak-limit", "", lp.world.want.Settings.Source,
			"%s to be deleted: leak_limit allows %d in %s", text.Count(waiting, "more leaked object waits", "more leaked objects wait"), lp.world.want.Settings.LeakLimit, lp.world.want.Settings.LeakSightings)
	}
	return lp.leaks
}

// isRecent reports whether the deletion of a leak started within leak_age.
func (lp *leakPlanner) isRecent(s *resources.Sighting) bool {
	return s != nil && !s.Deleted.IsZero() && lp.world.seen.Now.Sub(s.Deleted) < lp.world.want.Settings.LeakSightings
}

// oldState notes that the state is older than the clouds, and sets stateOutdated, which keeps the leaks: they may be
// nodes in use that lost their records.
func (lp *leakPlanner) oldState() {
	var first *resources.Sighting
	n := 0
	for _, s := range lp.leaks {
		if seen := lp.sighting(s); seen != nil && seen.NewerThanState {
			if n++; first == nil || seen.Record.ID < first.Record.ID {
				first = seen
			}
		}
	}
	if n == 0 || lp.world.opt.Destroy {
		return
	}
	effect := "npctl deletes no object without a record unless -allow-destroy=all is set"
	if lp.world.opt.AllowDestroy == AllowAll {
		effect = "-allow-destroy=all: objects without a record are deleted as leaked"
	} else {
		lp.stateOutdated = true
	}
	lp.draft.note(Warning, NoteOldState, "", resources.Source{}, "the state is older than the clouds: %s with IDs that this state did not assign (such as %s); "+
		"it was restored from a backup, or is a copy; %s", text.Count(n, "object", "objects"), first.Record, effect)
}

// NoteOldState is the code of the note that the state is older than the clouds.
const NoteOldState = "state-outdated"

// orphans plans the deletion of the associated resources of a node without an instance, and returns the steps. The
// floating IP of an instance that was deleted without npctl remains, and without the record it is a leak like any
// other.
func (np *nodePlanner) orphans(n *resources.Node) []string {
	if _, found := np.world.instances[n.ID]; found {
		return nil // deleted with the instance
	}
	parts := slices.Clone(np.world.parts[n.ID])
	slices.SortFunc(parts, func(a, b leak) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.id, b.id)) })
	var steps []string
	for _, s := range parts {
		if s.inUse {
			continue
		}
		steps = append(steps, np.draft.add(Step{Address: leakAddress(s), Kind: KindDeleteLeftover, Reason: ReasonOrphaned,
			Evidence: []Fact{{"name", s.name}, {"node", n.ID}}, Provider: s.provider, Type: s.kind, External: s.id,
			Preconditions: []Fingerprint{{Subject: string(leakAddress(s)), Digest: digest(s.marks.ID, s.id)}}}))
	}
	return steps
}

func leakAddress(s leak) Address {
	if s.provider == "" {
		return Address(s.kind + "." + s.id)
	}
	return ProviderAddress(s.provider) + Address("."+s.kind+"."+s.id)
}

// leakReason returns why a leak is to be deleted, or "" if it stays for now.
func (lp *leakPlanner) leakReason(s leak) (Reason, []Fact) {
	evidence := []Fact{{"name", s.name}, {string(s.marks.Kind), s.marks.ID}}
	if s.inUse {
		lp.draft.note(Warning, "leak-in-use", leakAddress(s), resources.Source{},
			"%s %s has our ownership tags and no record, and is in use; npctl does not delete it", s.kind, s.id)
		return "", nil
	}
	reason, what := ReasonLeaked, "has no record"
	switch {
	case s.of.Kind == resources.KindBuild && lp.world.busy(s.of):
		return "", nil // the build is running
	case s.of.Kind == resources.KindBuild:
		return ReasonUnfinished, evidence
	case s.of.Kind != "":
		reason, what = ReasonDuplicate, fmt.Sprintf("is not the object of record %s", s.of)
		evidence = append(evidence, Fact{"record", s.of.String()})
	}
	if lp.world.opt.Destroy {
		if reason == ReasonLeaked {
			reason = ReasonDestroy
		}
		return reason, evidence
	}
	if lp.stateOutdated {
		lp.draft.note(Info, "leak-kept", leakAddress(s), resources.Source{},
			"%s %s (%s) has our ownership tags and %s; npctl does not delete it, because the state is older than the clouds", s.kind, s.name, s.id, what)
		return "", nil
	}
	seen := lp.sighting(s)
	if seen == nil || lp.world.seen.Now.Sub(seen.First) < lp.world.want.Settings.LeakSightings {
		lp.draft.note(Info, "leak-sighted", leakAddress(s), resources.Source{},
			"%s %s (%s) has our ownership tags and %s; npctl deletes it if it still exists %s after an apply has listed it",
			s.kind, s.name, s.id, what, lp.world.want.Settings.LeakSightings)
		return "", nil
	}
	return reason, append(evidence, Fact{"first seen", seen.First.UTC().Format(time.RFC3339)})
}

func (lp *leakPlanner) sighting(s leak) *resources.Sighting {
	key := (&resources.Sighting{Provider: s.provider, Type: s.kind, External: s.id}).Key().ID
	i := slices.IndexFunc(lp.world.seen.Records.Sightings, func(r *resources.Sighting) bool { return r.Key().ID == key })
	if i < 0 {
		return nil
	}
	return lp.world.seen.Records.Sightings[i]
}

// Sightings returns the sighting records after these observations: new leaks with the time of their first sighting,
// known leaks with one more sighting and, in gone, the sightings of listed providers that no longer have the leak.
// Sightings with a deletion within age stay, since leak_limit counts them.
func Sightings(seen Observed, age time.Duration) (now []*resources.Sighting, gone []resources.Key) {
	w := newWorld(resources.Desired{}, seen, Options{})
	there := map[resources.Key]bool{}
	for _, s := range w.leaks {
		record := resources.Sighting{Provider: s.provider, Type: s.kind, External: s.id, First: seen.Now,
			Record: resources.Key{Kind: s.marks.Kind, ID: s.marks.ID}}
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

// noteForeignResources notes the foreign instances in our projects: their number and size, and look-alikes.
func (d *draft) noteForeignResources() {
	for _, provider := range d.world.names {
		view, looked := d.world.view(provider)
		if !looked {
			continue
		}
		var others int
		var use resources.ResourceAmounts
		adopted, imported := d.world.adoptedNodes(provider), d.imported(provider)
		for k := range view.Instances {
			i := &view.Instances[k]
			if i.Marks.Installation == d.world.seen.Installation || i.Marks.Installation == "" && adopted[i.ID] != nil || imported[i.ID] {
				continue
			}
			others++
			use = use.Plus(i.Resources)
			if ourName.MatchString(i.Name) || i.Marks.Installation != "" {
				d.note(Info, "look-alike", ProviderAddress(provider)+Address(".server."+i.ID), resources.Source{},
					"server %s (%s) looks like a node but %s; npctl ignores it", i.Name, i.ID, lookAlike(i.Marks))
			}
		}
		if others > 0 {
			d.note(Info, "unmanaged", ProviderAddress(provider), d.world.source(provider),
				"%s of others in the project, ignored%s", text.Count(others, "server", "servers"), cores(use))
		}
	}
}

func lookAlike(m resources.OwnerTags) string {
	if m.Installation == "" {
		return "has no ownership tags of npctl"
	}
	return "belongs to installation " + m.Installation
}

func cores(use resources.ResourceAmounts) string {
	if use.Cores == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s, %d MiB of RAM)", text.Count(use.Cores, "core", "cores"), use.RAM)
}

// maxUnknownFiles is the number of files that the note names.
const maxUnknownFiles = 3

// hasMade reports whether the installation of the state has made an image file. Without a record the file is then a leak.
func (o *Observed) hasMade(f ImageFile) bool {
	return o.Installation != "" && f.Installation == o.Installation
}

// unknownFiles notes image files that have no record and that this state has not made, as after a loss of the state.
// Another state or Nodepool may use them, so npctl never deletes them.
func (d *draft) unknownFiles() {
	seen := d.world.seen
	var names []string
	for _, f := range seen.Files {
		if id := BuildIDOfFile(f.Name); id != "" && d.world.build[id] == nil && !seen.hasMade(f) {
			names = append(names, f.Name)
		}
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	shown := strings.Join(names[:min(len(names), maxUnknownFiles)], ", ")
	if len(names) > maxUnknownFiles {
		shown += ", …"
	}
	of := "them"
	if len(names) == 1 {
		of = "it"
	}
	d.note(Info, "unknown-files", "", d.world.want.Settings.Source,
		"%s in images_dir without a record in this state (%s): a lost or another state, or Nodepool, has built %s; npctl does not delete %[3]s",
		text.Count(len(names), "image file", "image files"), shown, of)
}

// planRecords plans changes of provider and image records: it removes the records of providers that are no longer
// configured, after the last of our objects there is deleted, and records the prevent_destroy of the configuration, which
// must be known after the block is removed.
func planRecords(w *world, d *draft, leaks []leak) {
	for _, p := range w.seen.Records.Providers {
		if w.providers[p.Name] != nil {
			continue
		}
		if _, looked := w.view(p.Name); !looked {
			continue
		}
		if d.world.requestsNodes(p) {
			continue
		}
		if needs, empty := d.emptied(p, leaks); empty {
			d.add(Step{ID: "forget provider " + p.Name, Address: ProviderAddress(p.Name), Kind: KindForgetRecord,
				Reason: ReasonNothingLeft, Provider: p.Name, Record: p.Key(), Needs: needs})
		}
	}
	protect := func(s Step, before bool) {
		s.Kind, s.Reason = KindUpdateRecord, ReasonConfigChanged
		s.Changes = []Change{{Attribute: "prevent_destroy", Before: strconv.FormatBool(before), After: strconv.FormatBool(!before)}}
		d.add(s)
	}
	for _, r := range w.seen.Records.Providers {
		if p := w.providers[r.Name]; p != nil && p.PreventDestroy != r.PreventDestroy {
			protect(Step{Address: ProviderAddress(r.Name), Provider: r.Name, Record: r.Key(), Source: p.Source}, r.PreventDestroy)
		}
	}
	for _, r := range w.seen.Records.Images {
		if img := w.images[r.Name]; img != nil && img.PreventDestroy != r.PreventDestroy {
			protect(Step{Address: imageAddress(img.Kind, r.Name), Image: r.Name, Record: r.Key(), Source: img.Source}, r.PreventDestroy)
		}
	}
}

// emptied reports whether this plan leaves none of our objects in a provider, and returns the steps that delete them.
func (d *draft) emptied(record *resources.ProviderRecord, leaks []leak) (needs []string, empty bool) {
	provider := record.Name
	var keys []resources.Key
	for _, n := range slices.Concat(d.world.nodes[provider], d.world.usedBy(record)) {
		keys = append(keys, n.Key())
	}
	for _, u := range d.world.seen.Records.Uploads {
		if u.Provider == provider {
			keys = append(keys, u.Key())
		}
	}
	for _, key := range keys {
		id, gone := d.deletedBy[key]
		if !gone {
			return nil, false
		}
		needs = append(needs, id)
	}
	for _, s := range leaks {
		id := string(ActionDelete) + " " + string(leakAddress(s))
		if s.provider != provider {
			continue
		}
		if _, planned := d.index[id]; !planned {
			return nil, false
		}
		needs = append(needs, id)
	}
	return needs, true
}
