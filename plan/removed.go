package plan

import (
	"slices"
	"strings"

	"github.com/npctl/npctl/resources"
)

// Removed blocks: the configuration no longer has a block, and the block says that its objects stay. A ready node and its
// server, a ready upload and its image, and a ready build and its files are forgotten: the step removes the ownership
// tags first, and then the record. npctl deletes unfinished and failed objects as without the block: no job has used them.

// planRemoved reports the providers of removed blocks with objects that npctl cannot forget: those that a Nodepool launcher serves,
// since Nodepool deletes servers of its provider that have no record, and those of drivers that cannot remove ownership tags.
func planRemoved(d *draft) {
	w := d.world
	for _, name := range w.names {
		removal, found := w.removalOf(name)
		if !found || !w.cannotForget(name) {
			continue
		}
		problem := Problem{Address: ProviderAddress(name), Provider: name, Source: removal.Source,
			Text: "npctl cannot forget its objects, because its driver cannot remove their ownership tags, without which npctl would delete them",
			Hint: "delete the removed block, and npctl deletes the objects; to keep them, keep the block that it names"}
		if p := w.launcherOf(name); p != nil {
			problem.Text = "npctl cannot forget its objects, because " + p.Program + " on " + p.Host + " serves the provider and would delete servers without a record"
			problem.Hint = "remove the provider from the configuration of that launcher, or stop it"
		}
		d.problems = append(d.problems, problem)
	}
}

// removalOf returns the first removed block that names objects of the provider in the cloud.
func (w *world) removalOf(provider string) (resources.Removal, bool) {
	for _, r := range w.declared.Removed {
		one := resources.Removals{r}
		if slices.ContainsFunc(w.nodes[provider], func(n *resources.Node) bool { return !n.Static && one.HasNode(n) }) ||
			slices.ContainsFunc(w.seen.Records.Uploads, func(u *resources.Upload) bool { return u.Provider == provider && one.HasUpload(u) }) {
			return r, true
		}
	}
	return resources.Removal{}, false
}

// cannotForget reports whether objects of a removed block of the provider have to keep their records.
func (w *world) cannotForget(provider string) bool {
	view, _ := w.view(provider)
	return view.CannotRelease || w.launcherOf(provider) != nil
}

// launcherOf returns a pool by which a Nodepool launcher serves the provider, or nil.
func (w *world) launcherOf(provider string) *resources.RegisteredPool {
	return resources.OtherLauncher(w.seen.RegisteredPools, func(name string) bool { return name == provider })
}

// removed plans a node of a removed block, and reports whether that is all to plan for it.
func (np *nodePlanner) removed(n *resources.Node) bool {
	if !np.world.declared.Removed.HasNode(n) {
		return false
	}
	isForgotten := np.world.canForget(n)
	isKept := !n.Static && np.world.cannotForget(n.Provider)
	if isForgotten || isKept {
		np.capacity.count(n)
	}
	if !isForgotten {
		return isKept
	}
	np.draft.add(Step{ID: "forget node " + n.ID, Address: nodeAddress(n.ID), Kind: KindReleaseNode, Reason: ReasonRemoved,
		Provider: n.Provider, Pool: n.Pool, Label: strings.Join(n.Labels, ","), Record: n.Key(), External: n.ExternalID,
		Evidence: []Fact{{"server", n.ExternalID}, {"name", n.Hostname}, {"state", string(n.State)}}})
	return true
}

// canForget reports whether the server of a node exists, and no job or request uses the node.
func (w *world) canForget(n *resources.Node) bool {
	switch n.State {
	case resources.StateReady, resources.StateUsed, resources.StateHold:
	default:
		return false
	}
	if w.owns(n) || n.ExternalID == "" || w.cannotForget(n.Provider) {
		return false
	}
	view, looked := w.view(n.Provider)
	if !looked {
		return true // was not queried; the step reads the tags
	}
	return slices.ContainsFunc(view.Instances, func(i resources.Instance) bool {
		ours := i.Marks.Installation == "" || i.Marks.SameRecord(resources.OwnerTags{Installation: w.seen.Installation, Kind: resources.KindNode, ID: n.ID})
		return i.ID == n.ExternalID && ours && !view.DeletedInstances[i.ID] && i.Status != resources.StatusDeleting
	})
}

// removedOr returns ReasonRemoved for a ready upload of a removed block, and otherwise the reason.
func (w *world) removedOr(u *resources.Upload, reason Reason) Reason {
	if u.State == resources.StateReady && w.declared.Removed.HasUpload(u) {
		return ReasonRemoved
	}
	return w.because(reason)
}

// releaseInstead makes a deletion the step that releases an object of a removed block.
func (s *Step) releaseInstead(release Kind) {
	if s.Reason == ReasonRemoved {
		s.ID = "forget" + strings.TrimPrefix(s.ID, "delete")
		s.Kind = release
	}
}
