package plan

import (
	"slices"
	"strings"

	"github.com/npctl/npctl/resources"
)

// Removed blocks: the configuration no longer has a block, and the block says that its objects stay. A ready node and its
// server, a ready upload and its image, and a ready build and its files are forgotten: the step removes the ownership
// tags first, and then the record. npctl deletes unfinished and failed objects as without the block: no job has used them.

// planRemoved reports the providers of removed blocks that a Nodepool launcher serves. Nodepool deletes servers of its
// provider that have no record.
func planRemoved(d *draft) {
	w := d.world
	if !w.seen.Shared || len(w.declared.Removed) == 0 {
		return
	}
	for _, name := range w.names {
		p := w.launcherOf(name)
		if p == nil || !slices.ContainsFunc(w.nodes[name], w.declared.Removed.HasNode) &&
			!slices.ContainsFunc(w.seen.Records.Uploads, func(u *resources.Upload) bool { return u.Provider == name && w.declared.Removed.HasUpload(u) }) {
			continue
		}
		d.problems = append(d.problems, Problem{Address: ProviderAddress(p.Provider), Provider: p.Provider,
			Text: "npctl cannot forget its objects, because " + p.Program + " on " + p.Host + " serves the provider and would delete servers without a record",
			Hint: "remove the provider from the configuration of that launcher, or stop it"})
	}
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
	isServed := np.world.launcherOf(n.Provider) != nil
	if isForgotten || isServed {
		np.capacity.count(n)
	}
	if !isForgotten {
		return isServed
	}
	np.draft.add(Step{ID: "forget node " + n.ID, Address: nodeAddress(n.ID), Action: ActionForget, Thing: ThingNode, Reason: ReasonRemoved,
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
	if w.owns(n) || n.ExternalID == "" || w.launcherOf(n.Provider) != nil {
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

// Releases reports whether the step removes the ownership tags of an object that stays, and then its record.
func (s *Step) Releases() bool { return s.Action == ActionForget && s.Reason == ReasonRemoved }

// forgetInstead makes a deletion the step that forgets a record of a removed block.
func (s *Step) forgetInstead() {
	if s.Reason == ReasonRemoved {
		s.ID = "forget" + strings.TrimPrefix(s.ID, "delete")
		s.Action = ActionForget
	}
}
