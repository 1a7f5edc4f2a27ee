package metastatic

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// slot is one of the parts of a backing node.
type slot struct {
	request string // by which the provider obtained the backing node
	number  int64  // from 0
}

// String returns the ID of the instance in the slot.
func (s slot) String() string { return s.request + "-" + strconv.FormatInt(s.number, 10) }

// parseSlot is the reverse of String.
func parseSlot(id string) (s slot, ok bool) {
	i := strings.LastIndexByte(id, '-')
	if i < 1 {
		return s, false
	}
	number, err := strconv.ParseInt(id[i+1:], 10, 64)
	s = slot{id[:i], number}
	return s, err == nil && number >= 0 && s.String() == id
}

// backing is a backing node: a request, and once the provider has taken it, the node.
type backing struct {
	request string
	labels  []string
	state   resources.State // of the request; resources.StateInUse or StateHold once the node is taken
	since   time.Time       // of the state
	created time.Time       // of the node; of the request before the node is taken
	err     string          // why the request has failed
	node    *resources.Node // nil before the node is taken
	nodeID  string          // "" before the request is fulfilled
	slots   map[int64]bool  // used numbers
}

// fleet is all backing nodes of a provider, with their slots.
type fleet struct {
	backing   map[string]*backing // by request
	instances []resources.Instance
}

// fleetOf computes the backing nodes and slots from the records and the reservations.
func fleetOf(env drivers.Env, seen drivers.SourcedNodes, reserved []resources.Instance) *fleet {
	f := &fleet{backing: map[string]*backing{}}
	for _, r := range seen.Requests {
		b := &backing{request: r.ID, labels: r.Labels, state: r.State, since: r.StateTime, created: r.Created, err: r.Error, slots: map[int64]bool{}}
		if len(r.Nodes) > 0 {
			b.nodeID = r.Nodes[0]
		}
		f.backing[r.ID] = b
	}
	for _, n := range seen.InUse {
		f.backing[n.Request] = &backing{request: n.Request, labels: n.Labels, state: n.State, since: n.StateTime, created: n.Created, node: n,
			nodeID: n.ID, slots: map[int64]bool{}}
	}
	for _, n := range seen.Own {
		f.add(recordedInstance(env, n), n.State)
	}
	for _, i := range reserved {
		f.add(i, resources.StateBuilding)
	}
	slices.SortFunc(f.instances, func(a, b resources.Instance) int { return cmp.Compare(a.ID, b.ID) })
	return f
}

func label(labels []string) string {
	if len(labels) == 0 {
		return ""
	}
	return labels[0]
}

// add adds the instance of a node in a state. The slot of an ended node is free.
func (f *fleet) add(i resources.Instance, state resources.State) {
	s, ok := parseSlot(i.ID)
	switch state {
	case resources.StateFailed, resources.StateAborted, resources.StateDeleting:
		return
	}
	if !ok || slices.ContainsFunc(f.instances, func(other resources.Instance) bool { return other.ID == i.ID }) {
		return
	}
	b := f.backing[s.request]
	if b != nil {
		b.slots[s.number] = true
	}
	starting := state == resources.StateInit || state == resources.StateBuilding
	if b == nil && !starting {
		return // the backing node is gone, and the node with it
	}
	f.instances = append(f.instances, b.describe(i))
}

// recordedInstance returns the instance of a node as its record describes it.
func recordedInstance(env drivers.Env, n *resources.Node) resources.Instance {
	return resources.Instance{ID: n.ExternalID, Name: n.Hostname, Created: n.Created, Marks: resources.OwnerTags{Installation: env.Installation,
		Kind: resources.KindNode, ID: n.ID, Provider: n.Provider, Pool: n.Pool, Label: label(n.Labels), Image: n.Image, Hash: n.Hash}}
}

// describe adds the status, and the attributes of the backing node, to an instance. Without the backing node, the
// instance has failed.
func (b *backing) describe(i resources.Instance) resources.Instance {
	i.Resources = resources.ResourceAmounts{Instances: 1}
	if s, ok := parseSlot(i.ID); ok {
		i.Slot = &s.number
	}
	switch {
	case b == nil:
		i.Status, i.Fault = resources.StatusFailed, "its backing node is gone"
	case b.node != nil:
		n := b.node
		i.Status, i.Addresses, i.HostKeys, i.Login, i.Attributes = resources.StatusReady, n.Addresses, n.HostKeys, n.Login, n.Attributes
		i.Zone, i.Region, i.Cloud, i.HostID = n.Zone, n.Region, n.Cloud, n.HostID
	case b.state == resources.StateFailed:
		i.Status, i.Fault, i.FaultKind = resources.StatusFailed, "request "+b.request+" for a backing node has failed: "+b.err, kindOf(b.err)
	default:
		i.Status = resources.StatusPending
	}
	return i
}

// kindOf returns the kind of the error in the text of a failed request. The text contains that of the error of the launch.
func kindOf(text string) resources.FaultKind {
	for _, known := range []struct {
		err  error
		kind resources.FaultKind
	}{{drivers.ErrQuota, resources.FaultQuota}, {drivers.ErrCapacity, resources.FaultCapacity}} {
		if strings.Contains(text, known.err.Error()) {
			return known.kind
		}
	}
	return ""
}

// choose returns the free slot for another instance. Backing nodes that can be used now go first, then those with the most
// used slots, so that others become empty, then the oldest ones.
func (f *fleet) choose(s labelSettings, waiting bool, now time.Time) (slot, bool) {
	var best *backing
	for _, id := range slices.Sorted(maps.Keys(f.backing)) {
		b := f.backing[id]
		if b.hasCapacity(s, waiting, now) && (best == nil || before(b, best)) {
			best = b
		}
	}
	if best == nil {
		return slot{}, false
	}
	free := slot{request: best.request}
	for best.slots[free.number] {
		free.number++
	}
	return free, true
}

// hasCapacity reports whether the backing node may get another slot. waiting permits a request without a node.
func (b *backing) hasCapacity(s labelSettings, waiting bool, now time.Time) bool {
	if !slices.Contains(b.labels, s.BackingLabel) || int64(len(b.slots)) >= s.MaxParallelJobs {
		return false
	}
	switch b.state {
	case resources.StateInUse:
		return !b.isRetired() && (s.MaxAge == 0 || now.Sub(b.created) < s.MaxAge)
	case resources.StateRequested, resources.StatePending:
		return waiting
	default:
		return b.state == resources.StateFulfilled
	}
}

// before orders backing nodes for choose.
func before(a, b *backing) bool {
	waits := func(b *backing) int {
		if b.node == nil {
			return 1
		}
		return 0
	}
	return cmp.Or(waits(a)-waits(b), len(b.slots)-len(a.slots), a.created.Compare(b.created), cmp.Compare(a.request, b.request)) < 0
}

// reservations are the slots of this process that no record names yet.
type reservations struct {
	turn chan struct{} // taken while a slot is chosen or a backing node is returned

	mu    sync.Mutex
	slots map[string]resources.Instance // by ID of the node; guarded by mu
}

func newReservations() *reservations {
	return &reservations{turn: make(chan struct{}, 1), slots: map[string]resources.Instance{}}
}

func (r *reservations) add(i resources.Instance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slots[i.Marks.ID] = i
}

// drop removes the reservation of a slot.
func (r *reservations) drop(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.slots, func(_ string, i resources.Instance) bool { return i.ID == id })
}

// without returns the reservations that records do not replace, and forgets the others: the record of the node names a
// slot, or the launch has ended.
func (r *reservations) without(own []*resources.Node) []resources.Instance {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range own {
		starting := n.State == resources.StateInit || n.State == resources.StateBuilding
		if n.ExternalID != "" || !starting {
			delete(r.slots, n.ID)
		}
	}
	return slices.SortedFunc(maps.Values(r.slots), func(a, b resources.Instance) int { return cmp.Compare(a.Marks.ID, b.Marks.ID) })
}
