package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/npctl/npctl/resources"
)

// slotKey identifies a slot of a static node.
type slotKey struct {
	provider, pool, node string
	slot                 int64
}

// staticPlanner registers, updates and unregisters the slots of static nodes.
type staticPlanner struct {
	world    *world
	draft    *draft
	capacity *capacity
	nodes    *nodePlanner
}

func planStaticNodes(w *world, d *draft, use *capacity, nodes *nodePlanner) {
	sp := &staticPlanner{w, d, use, nodes}
	records, twice := sp.slotRecords()
	for i := range sp.world.want.Providers {
		p := &sp.world.want.Providers[i]
		for _, pool := range p.Pools {
			for j := range pool.Nodes {
				sp.slots(p, pool.Name, &pool.Nodes[j], records)
			}
		}
	}
	left := slices.SortedFunc(maps.Values(records), func(a, b *resources.Node) int { return strings.Compare(a.ID, b.ID) })
	for _, n := range left {
		sp.removeSlot(n, sp.whyLeft(n))
	}
	for _, n := range twice {
		sp.removeSlot(n, ReasonDuplicate)
	}
}

// slotRecords returns the record of each slot, and the duplicates: a slot is for one job at a time. The record of a
// slot that is taken stays.
func (sp *staticPlanner) slotRecords() (records map[slotKey]*resources.Node, twice []*resources.Node) {
	records = map[slotKey]*resources.Node{}
	for _, provider := range sp.world.names {
		for _, n := range sp.world.nodes[provider] {
			if !n.Static {
				continue
			}
			key := slotKey{n.Provider, n.Pool, n.Hostname, n.Slot}
			other := records[key]
			switch {
			case other == nil:
				records[key] = n
			case sp.taken(n) && !sp.taken(other):
				records[key], twice = n, append(twice, other)
			default:
				twice = append(twice, n)
			}
		}
	}
	return records, twice
}

// taken reports whether a slot is in use, on hold, reserved for a request, or being removed.
func (sp *staticPlanner) taken(n *resources.Node) bool {
	return n.State.IsInService() || n.State == resources.StateDeleting || sp.world.owns(n) || sp.world.inTransit(n)
}

// slots plans the slots of one configured machine and removes their records from the map.
func (sp *staticPlanner) slots(p *resources.Provider, pool string, node *resources.StaticNode, records map[slotKey]*resources.Node) {
	for slot := range node.Slots {
		key := slotKey{p.Name, pool, node.Name, slot}
		n := records[key]
		delete(records, key)
		s := Step{Address: slotAddress(key, node.Slots), Provider: p.Name, Pool: pool,
			Label: strings.Join(node.Labels, ","), Node: node.Name, Slot: slot, Source: node.Source}
		taken := n != nil && sp.taken(n)
		for _, label := range node.Labels {
			if !taken && (n != nil || sp.world.reachable(p.Name)) {
				sp.capacity.readyCount[label]++
			}
		}
		if !sp.world.reachable(p.Name) {
			continue
		}
		switch {
		case n == nil:
			s.Kind, s.Reason = KindRegisterSlot, ReasonNewStaticNode
			sp.draft.add(s)
		case sp.world.useExpired(n) != "" && !sp.world.opt.Destroy:
			sp.nodes.endUse(n)
		case n.State == resources.StateFailed && sp.world.inBackoff(&resources.Failure{Count: int(n.Attempt), Time: n.StateTime}, staticBackoff):
			sp.draft.note(Warning, "unreachable", s.Address, node.Source, "static node %s does not respond: %s", node.Name, n.Error)
		case sp.world.orphanedByRequest(n):
		case n.State == resources.StateReady && n.Request != "" && !sp.world.owns(n):
			sp.nodes.releaseFromRequest(n)
		case n.State == resources.StateUsed || n.State == resources.StateFailed:
			s.Kind, s.Reason, s.Record = KindCheckSlot, ReasonUsed, n.Key()
			sp.draft.add(s)
		case n.State == resources.StateDeleting:
			sp.removeSlot(n, ReasonUnfinished)
		case !node.Hashes.Match(n.Hash):
			s.Kind, s.Reason, s.Record = KindCheckSlot, ReasonConfigChanged, n.Key()
			s.Changes = sp.world.changes(n.Hash, node.Static)
			for i := range s.Changes {
				s.Changes[i].Forces = false
			}
			sp.draft.add(s)
		default:
			sp.draft.kept.addresses = append(sp.draft.kept.addresses, s.Address)
		}
	}
}

func slotAddress(key slotKey, slots int64) Address {
	a := poolAddress(key.provider, key.pool) + Address(".node."+key.node)
	if slots > 1 {
		a += Address(fmt.Sprintf("[%d]", key.slot))
	}
	return a
}

// whyLeft returns why a slot is no longer configured.
func (sp *staticPlanner) whyLeft(n *resources.Node) Reason {
	if n.State == resources.StateDeleting {
		return ReasonUnfinished
	}
	if sp.configuredSlots(n) > 0 {
		return ReasonSlotRemoved
	}
	if sp.world.declared.Removed.HasNode(n) {
		return ReasonRemoved
	}
	_, removed := sp.world.placeOfNode(n)
	if removed == ReasonProviderRemoved || removed == ReasonPoolRemoved {
		return removed
	}
	return ReasonStaticNodeGone
}

// configuredSlots returns the configured number of slots of a record's machine.
func (sp *staticPlanner) configuredSlots(n *resources.Node) int64 {
	s := sp.world.poolByKey[poolKey{n.Provider, n.Pool}]
	if s == nil {
		return 0
	}
	i := slices.IndexFunc(s.pool.Nodes, func(node resources.StaticNode) bool { return node.Name == n.Hostname })
	if i < 0 {
		return 0
	}
	return s.pool.Nodes[i].Slots
}

// registeredSlots returns the number of slots of a record's machine according to the records.
func (sp *staticPlanner) registeredSlots(n *resources.Node) int64 {
	slots := int64(0)
	for _, other := range sp.world.nodes[n.Provider] {
		if other.Static && other.Pool == n.Pool && other.Hostname == n.Hostname {
			slots = max(slots, other.Slot+1)
		}
	}
	return slots
}

// removeSlot plans the removal of the record of a slot. The machine is not changed.
func (sp *staticPlanner) removeSlot(n *resources.Node, reason Reason) {
	key := slotKey{n.Provider, n.Pool, n.Hostname, n.Slot}
	at := slotAddress(key, max(sp.configuredSlots(n), sp.registeredSlots(n)))
	if !sp.world.reachable(n.Provider) {
		return
	}
	if n.State != resources.StateDeleting && sp.taken(n) && !sp.world.opt.Destroy {
		sp.draft.note(Info, "in-use", at, resources.Source{},
			"static node %s is %s and stays until it is returned", n.Hostname, n.State)
		return
	}
	sp.draft.add(Step{ID: "unregister node " + n.ID, Address: at, Kind: KindUnregisterSlot,
		Reason: sp.world.because(reason), Provider: n.Provider, Pool: n.Pool, Node: n.Hostname, Slot: n.Slot,
		Label: strings.Join(n.Labels, ","), Record: n.Key(), Evidence: []Fact{{"state", string(n.State)}}})
}
