package plan

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/internal/schedule"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// disruption decides which ready nodes the plan may replace or delete, within the budgets of the configuration. It keeps no state:
// the records show which nodes are being replaced, and the order of the other ones is the same in each plan.
//
// Each budget counts the nodes that are being replaced:
//
//   - ready nodes that are being deleted, by resources.Node.DeletedFor;
//   - ready nodes with a successor, by resources.Node.Replaces; they are replaced whatever the budgets are now;
//   - failed and lost nodes, and those of -replace, which budgets do not limit;
//   - the nodes that a label lacks for min_ready. In the budgets of its pools and providers they count while they are launched and
//     the label has nodes to replace.
type disruption struct {
	world   *world
	budgets map[Address]*budget
	allowed map[string]bool // by ID of a node that the plan may replace
	waits   map[waitKey]*wait
}

// budget is the disruption blocks of a label, pool or provider.
type budget struct {
	at      Address
	source  resources.Source
	blocks  []resources.Disruption
	nodes   int64    // ready or being replaced
	gone    int64    // being replaced
	missing int64    // of these, the nodes that a label lacks for min_ready
	users   []string // of these, the nodes that earlier plans or failures replace, by ID
	limits  map[resources.DisruptionReason]allowance
}

// allowance is the number of nodes that a budget allows for a reason.
type allowance struct {
	most   int64
	max    string         // the attribute max that is in force
	window schedule.State // of blocks with a schedule; zero without one
	timed  bool           // each block that names the reason has a schedule
}

type waitKey struct {
	label  string
	reason resources.DisruptionReason
}

// wait is the nodes of a label that would be replaced for one reason.
type wait struct {
	now     int // that the plan replaces
	kept    int // that would be replaced if a successor could be launched
	waiting []*resources.Node
	budget  *budget // for which the first of them waits
}

// disruptionReasons are the reasons of plans that count against budgets. Budgets do not limit those without a value.
var disruptionReasons = map[Reason]resources.DisruptionReason{
	ReasonConfigChanged:   resources.DisruptionConfiguration,
	ReasonMaxReadyAge:     resources.DisruptionAge,
	ReasonAboveMaxServers: resources.DisruptionSurplus,
	ReasonSurplus:         resources.DisruptionSurplus,
	ReasonRequested:       "",
	ReasonFailed:          "",
	ReasonLost:            "",
	ReasonNotReady:        "",
	ReasonAddressChanged:  "",
}

// IsDisruption reports whether the deletion of a ready node for this reason counts against disruption budgets.
func (r Reason) IsDisruption() bool {
	_, counts := disruptionReasons[r]
	return counts
}

func newDisruption(w *world) *disruption {
	d := &disruption{world: w, budgets: map[Address]*budget{}, allowed: map[string]bool{}, waits: map[waitKey]*wait{}}
	add := func(at Address, source resources.Source, blocks []resources.Disruption) {
		if len(blocks) > 0 {
			d.budgets[at] = &budget{at: at, source: source, blocks: blocks, limits: map[resources.DisruptionReason]allowance{}}
		}
	}
	for i := range w.want.Labels {
		l := &w.want.Labels[i]
		add(Address("label."+l.Name), l.Source, l.Disruptions)
	}
	for _, s := range w.pools {
		add(poolAddress(s.at.provider, s.at.pool), s.pool.Source, s.pool.Disruptions)
		add(ProviderAddress(s.at.provider), s.provider.Source, s.provider.Disruptions)
	}
	if len(d.budgets) > 0 {
		d.allow(d.count())
	}
	return d
}

// budgetsOf returns the budgets of a label in a pool.
func (d *disruption) budgetsOf(at *poolOffer) (all []*budget) {
	if len(d.budgets) == 0 {
		return nil
	}
	for _, address := range [...]Address{Address("label." + at.offer.Label), poolAddress(at.at.provider, at.at.pool), ProviderAddress(at.at.provider)} {
		if b := d.budgets[address]; b != nil {
			all = append(all, b)
		}
	}
	return all
}

// candidate is a ready node that the configuration wants to replace.
type candidate struct {
	node   *resources.Node
	at     *poolOffer
	reason resources.DisruptionReason
}

// labelSupply is the nodes of a label while count examines them.
type labelSupply struct {
	ready, gone int64
	launches    []launchAt // that replace no ready node
	candidates  bool
}

type launchAt struct {
	node *resources.Node
	at   *poolOffer
}

// count counts the nodes of all budgets and returns the candidates, first those with a successor, then the oldest.
func (d *disruption) count() (candidates []candidate) {
	w, supplies, successors := d.world, map[string]*labelSupply{}, map[string]bool{}
	supply := func(label string) *labelSupply {
		if supplies[label] == nil {
			supplies[label] = &labelSupply{}
		}
		return supplies[label]
	}
	for _, provider := range w.names {
		for _, n := range w.nodes[provider] {
			at, removed := w.placeOfNode(n)
			switch {
			case n.Static && n.State == resources.StateReady && n.Request == "":
				for _, label := range n.Labels {
					supply(label).ready++
				}
				continue
			case n.Static || removed != "" || n.Importing != "" || n.Validates != "" || w.owns(n) || w.inTransit(n):
				continue
			}
			s := supply(at.offer.Label)
			switch {
			case n.State == resources.StateDeleting && n.DeletedFor != "":
				s.gone++
				d.add(n, at, true)
			case n.State == resources.StateInit || n.State == resources.StateBuilding:
				s.launches = append(s.launches, launchAt{n, at})
				successors[n.Replaces] = true
			case n.State == resources.StateReady:
				sick, reason := d.isSick(n), w.outdated(n, at)
				if sick {
					s.gone++
				} else {
					s.ready++
					successors[n.Replaces] = true
				}
				if sick || d.counts(n) {
					d.add(n, at, sick || w.busy(n.Key()) || w.isReplaceOrder(n)) // a running step is about to delete a busy node, or to assign it
				}
				if !sick && reason != "" && !w.isReplaceOrder(n) && d.takesPart(n, at) {
					s.candidates = true
					candidates = append(candidates, candidate{n, at, disruptionReasons[reason]})
				}
			}
		}
	}
	d.countMissing(supplies, candidates)
	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(compareBool(successors[b.node.ID], successors[a.node.ID]), compareAge(a.node, b.node))
	})
	for _, c := range candidates {
		d.allowed[c.node.ID] = successors[c.node.ID]
	}
	return candidates
}

func compareBool(a, b bool) int {
	return map[bool]int{true: 1}[a] - map[bool]int{true: 1}[b]
}

// add counts a node in its budgets.
func (d *disruption) add(n *resources.Node, at *poolOffer, gone bool) {
	for _, b := range d.budgetsOf(at) {
		b.nodes++
		if gone {
			b.gone++
			b.users = append(b.users, n.ID)
		}
	}
}

// counts reports whether a ready node is not the successor of a node that still exists. Both count once: a replacement must not raise
// the share that a budget allows.
func (d *disruption) counts(n *resources.Node) bool {
	old := d.world.node[n.Replaces]
	return old == nil || old.State != resources.StateReady && (old.State != resources.StateDeleting || old.DeletedFor == "")
}

// countMissing counts the nodes that labels lack for min_ready, beyond their failed and deleted nodes: in the budget of the label all of
// them, in those of pools and providers the ones that are being launched there.
func (d *disruption) countMissing(supplies map[string]*labelSupply, candidates []candidate) {
	old := map[string]bool{}
	for _, c := range candidates {
		old[c.node.ID] = true
	}
	for _, name := range slices.Sorted(maps.Keys(supplies)) {
		s, label := supplies[name], d.world.label(name)
		if label == nil {
			continue
		}
		missing := max(label.MinReady-s.ready-s.gone, 0)
		if b := d.budgets[Address("label."+name)]; b != nil {
			b.nodes += missing
			b.gone += missing
			b.missing = missing
		}
		for _, l := range s.launches {
			if missing == 0 || !s.candidates {
				break
			}
			if old[l.node.Replaces] { // its predecessor counts
				continue
			}
			missing--
			for _, b := range d.budgetsOf(l.at) {
				if b.at != Address("label."+name) {
					b.nodes++
					b.gone++
					b.users = append(b.users, l.node.ID)
				}
			}
		}
	}
}

// isSick reports whether the plan deletes the node whatever the budgets are.
func (d *disruption) isSick(n *resources.Node) bool {
	if d.world.busy(n.Key()) || !d.world.reachable(n.Provider) {
		return false
	}
	reason, _ := d.world.broken(n)
	return reason != ""
}

// takesPart reports whether a process may replace the node: this one, within the targets of the plan, or in a shared store another one,
// which orders the nodes in the same way.
func (d *disruption) takesPart(n *resources.Node, at *poolOffer) bool {
	w, opt := d.world, &d.world.opt
	s := Step{Address: nodeAddress(n.ID), Provider: n.Provider, Pool: n.Pool, Label: at.offer.Label}
	if len(opt.Targets) > 0 && !within(s.addresses(), opt.Targets) || within(s.addresses(), opt.Excludes) {
		return false
	}
	return len(at.problems) == 0 && (w.reachable(n.Provider) || w.seen.Shared && w.seen.Frozen[n.Provider])
}

// allow allows candidates in their order: those with a successor always, the others within the budgets.
func (d *disruption) allow(candidates []candidate) {
	for _, c := range candidates {
		budgets := d.budgetsOf(c.at)
		if d.world.busy(c.node.Key()) { // counted
			continue
		}
		if d.allowed[c.node.ID] {
			for _, b := range budgets {
				b.gone++
			}
			d.waitOf(c.at, c.reason).now++
			continue
		}
		d.allowed[c.node.ID] = d.take(c.node, c.at, c.reason)
	}
}

// take uses one node of each budget of a node, or of none if one of them allows no further node.
func (d *disruption) take(n *resources.Node, at *poolOffer, reason resources.DisruptionReason) bool {
	budgets, w := d.budgetsOf(at), d.waitOf(at, reason)
	for _, b := range budgets {
		if b.gone >= b.limit(reason, d.world.seen.Now).most {
			if w.waiting = append(w.waiting, n); w.budget == nil {
				w.budget = b
			}
			return false
		}
	}
	for _, b := range budgets {
		b.gone++
	}
	w.now++
	return true
}

func (d *disruption) waitOf(at *poolOffer, reason resources.DisruptionReason) *wait {
	key := waitKey{at.offer.Label, reason}
	if d.waits[key] == nil {
		d.waits[key] = &wait{}
	}
	return d.waits[key]
}

// allows reports whether the plan may replace a ready node that differs from the configuration or is too old.
func (d *disruption) allows(n *resources.Node, at *poolOffer) bool {
	return len(d.budgetsOf(at)) == 0 || d.allowed[n.ID]
}

// keep reports whether a node that the plan would replace stays if no successor can be launched: budgets apply to it.
func (d *disruption) keep(n *resources.Node) bool {
	at, removed := d.world.placeOfNode(n)
	if removed != "" || len(d.budgetsOf(at)) == 0 || d.world.isReplaceOrder(n) {
		return false
	}
	w := d.waitOf(at, disruptionReasons[d.world.outdated(n, at)])
	w.now--
	w.kept++
	return true
}

// allowsSurplus reports whether the plan may delete a ready node of a pool with too many nodes.
func (d *disruption) allowsSurplus(n *resources.Node) bool {
	at, removed := d.world.placeOfNode(n)
	return removed != "" || len(d.budgetsOf(at)) == 0 || d.take(n, at, resources.DisruptionSurplus)
}

// limit returns the limit for a reason: the smallest of the active blocks that name it. Without a block that names it there is none;
// with only inactive ones it is 0.
func (b *budget) limit(reason resources.DisruptionReason, now time.Time) allowance {
	if l, known := b.limits[reason]; known {
		return l
	}
	l := allowance{most: math.MaxInt64}
	named, always, active := false, false, false
	for i := range b.blocks {
		block := &b.blocks[i]
		if len(block.Reasons) > 0 && !slices.Contains(block.Reasons, string(reason)) {
			continue
		}
		named = true
		state := schedule.State{Open: true}
		if block.Schedule == "" {
			always = true
		} else if window, err := schedule.New(block.Schedule, block.Duration, block.TimeZone); err != nil {
			state = schedule.State{} // config has checked it; nothing is allowed without a window
		} else {
			state = window.At(now)
			l.window.Opens = earlier(l.window.Opens, state.Opens)
		}
		max, err := resources.ParseMaxNodes(block.Max)
		if most := max.Of(b.nodes); state.Open && err == nil && (!active || most < l.most) {
			active, l.most, l.max, l.window.Ends = true, most, block.Max, state.Ends
		}
	}
	l.timed, l.window.Open = named && !always, active
	if named && !active {
		l.most = 0
	}
	b.limits[reason] = l
	return l
}

// earlier returns the earlier of two times. The zero time is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// note adds a note for each label and reason with nodes that wait.
func (d *disruption) note(to *draft) {
	if d.world.opt.RefreshOnly {
		return
	}
	keys := make([]waitKey, 0, len(d.waits))
	for key, w := range d.waits {
		if len(w.waiting)+w.kept > 0 {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b waitKey) int { return cmp.Or(cmp.Compare(a.label, b.label), cmp.Compare(a.reason, b.reason)) })
	for _, key := range keys {
		w, source := d.waits[key], resources.Source{}
		if w.budget != nil {
			source = w.budget.source
		}
		to.note(Info, "disruption", Address("label."+key.label), source, "%s", d.text(key, w))
	}
}

// zoned is the format of times in the zone of a window.
const zoned = "Mon 2006-01-02 15:04 MST"

// text describes which nodes of a label wait, for which budget, and until when.
func (d *disruption) text(key waitKey, w *wait) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if w.kept > 0 {
		add("%s of label %s (%s) will be replaced when a successor can be launched", text.Count(w.kept, "node", "nodes"), key.label, key.reason)
	}
	if len(w.waiting) == 0 {
		return strings.Join(parts, "; ")
	}
	b, l := w.budget, w.budget.limit(key.reason, d.world.seen.Now)
	of := fmt.Sprintf("%s of label %s (%s)", text.Count(len(w.waiting), "node", "nodes"), key.label, key.reason)
	waits, are := "wait", "are"
	if len(w.waiting) == 1 {
		waits, are = "waits", "is"
	}
	switch {
	case l.timed && !l.window.Open:
		add("%s %s: no window of %s is open", of, waits, b.at)
	case l.most == 0:
		add("%s %s never replaced: %s has max = %q", of, are, b.at, l.max)
	case strings.HasSuffix(l.max, "%"):
		add("%s %s, and the plan replaces %d: %s allows %d at a time, %s of %d", of, waits, w.now, b.at, l.most, l.max, b.nodes)
	default:
		add("%s %s, and the plan replaces %d: %s allows %d at a time", of, waits, w.now, b.at, l.most)
	}
	if len(b.users) > 0 {
		add("being replaced already: %s", listed(b.users))
	}
	if b.missing > 0 {
		add("%s fewer than min_ready", text.Count(b.missing, "node", "nodes"))
	}
	if l.most > 0 {
		if end := d.expectedEnd(w, l.most); !end.IsZero() && (l.window.Ends.IsZero() || end.Before(l.window.Ends)) {
			add("the last one is expected to be replaced at %s", clock(end))
		}
	}
	if l.window.Open && !l.window.Ends.IsZero() {
		add("the window closes at %s", l.window.Ends.Format(zoned))
	}
	if l.timed && !l.window.Opens.IsZero() {
		add("the next window opens at %s", l.window.Opens.Format(zoned))
	}
	if l.most > 0 || l.timed {
		add("npctl watch or a later apply continues")
	}
	return strings.Join(parts, "; ")
}

// listed lists the first IDs of nodes.
func listed(ids []string) string {
	const most = 3
	shown := make([]string, 0, most)
	for _, id := range ids[:min(len(ids), most)] {
		shown = append(shown, string(nodeAddress(id)))
	}
	if more := len(ids) - most; more > 0 {
		return strings.Join(shown, ", ") + fmt.Sprintf(" and %d more", more)
	}
	return text.And(shown)
}

// expectedEnd returns when the last node would be replaced, if each wave takes as long as the slowest of the recorded launches; zero if
// none is recorded.
func (d *disruption) expectedEnd(w *wait, each int64) time.Time {
	longest := 0.0
	for _, n := range w.waiting {
		at, _ := d.world.placeOfNode(n)
		longest = max(longest, d.world.estimate("launch/"+n.Provider+"/"+at.offer.Label))
	}
	if longest == 0 {
		return time.Time{}
	}
	waves := 1 + (int64(len(w.waiting))+each-1)/each // the first one replaces nodes already
	return d.world.seen.Now.Add(time.Duration(float64(waves) * longest * float64(time.Second)))
}

// outdated returns the reason to replace a ready node, or "".
func (w *world) outdated(n *resources.Node, at *poolOffer) Reason {
	label := w.label(at.offer.Label)
	switch {
	case !at.offer.Hashes.Match(n.Hash):
		return ReasonConfigChanged
	case label != nil && label.MaxReadyAge > 0 && w.seen.Now.Sub(n.StateTime) >= label.MaxReadyAge:
		return ReasonMaxReadyAge
	default:
		return ""
	}
}

// isReplaceOrder reports whether -replace names the node.
func (w *world) isReplaceOrder(n *resources.Node) bool {
	return slices.Contains(w.opt.Replace, nodeAddress(n.ID))
}
