package plan

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/npctl/npctl/resources"
)

// option is a pool that can serve a request, now or later.
type option struct {
	*site
	zone    string
	nodes   []string // ready ones, by position in the request; empty where one has to be launched
	places  []*place // by position in the request; nil where only machines that exist have the label
	missing int
	need    resources.Amounts // of what has to be launched
	full    *lack             // why it cannot be served now
	share   float64           // of the pool that is free

	hindered bool // it cannot be served whatever room there is
}

func (o *option) place() resources.Place {
	return resources.Place{Provider: o.at.provider, Pool: o.at.pool, Zone: o.zone}
}

// better orders pools that can serve a request: nodes that are ready before those that have to be launched, then as
// placementOrder says.
func better(a, b *option) int {
	return cmp.Or(cmp.Compare(min(a.missing, 1), min(b.missing, 1)), placementOrder(a.site, b.site, a.share, b.share))
}

// options lists the pools that could serve a request, the best one first, and those that never will with the reason.
func (d *dispatch) options(r *resources.Request) (options []*option, declined []resources.Decline) {
	for _, s := range d.world.sites {
		if !d.offersAny(s, r.Labels) {
			continue
		}
		if k := slices.IndexFunc(r.Declined, func(n resources.Decline) bool { return s.at.is(n) && n.Zone == "" }); k >= 0 {
			declined = append(declined, r.Declined[k])
			continue
		}
		switch o, why := d.optionAt(r, s, nil); why {
		case "":
			options = append(options, o)
		case zonesDeclined:
			declined = append(declined, zoneDeclines(r, s.at)...)
		default:
			declined = append(declined, resources.Decline{Provider: s.at.provider, Pool: s.at.pool, Reason: why})
		}
	}
	slices.SortStableFunc(options, better)
	return options, declined
}

// optionAt looks at one pool. have are nodes that the request has there already. why says that it never can.
func (d *dispatch) optionAt(r *resources.Request, s *site, have []string) (o *option, why string) {
	if r.Provider != "" && r.Provider != s.at.provider && !d.seen.Shared {
		return nil, "the request wants provider " + r.Provider
	}
	o = &option{site: s, zone: r.Place.Zone, nodes: make([]string, len(r.Labels)), places: make([]*place, len(r.Labels))}
	if why := d.offered(o, r); why != "" {
		return nil, why
	}
	if slices.ContainsFunc(o.places, func(at *place) bool { return at != nil }) {
		o.share = d.freeShare(s, d.free)
	}
	if !d.reachable(s.at.provider) {
		o.full = &lack{text: "the provider does not answer"}
		return o, ""
	}
	if !r.Fresh {
		d.reuse(o, r, have)
	}
	if o.zone == "" && len(r.Labels) > 1 {
		zones, known := zonesLeft(o, r)
		if known && len(zones) == 0 {
			return nil, zonesDeclined
		}
		if len(zones) > 0 {
			o.zone = spread(zones, r.ID)
		}
	}
	return o, d.missing(o, r, have)
}

// zonesDeclined is why a pool will not do any more whose zones have all declined the request.
const zonesDeclined = "every zone has declined"

// is reports whether it is the pool that has declined, or a zone of it.
func (k poolKey) is(n resources.Decline) bool { return n.Provider == k.provider && n.Pool == k.pool }

func zoneDeclines(r *resources.Request, at poolKey) []resources.Decline {
	return slices.DeleteFunc(slices.Clone(r.Declined), func(n resources.Decline) bool { return !at.is(n) })
}

// zonesLeft lists the zones in which every label can be launched and that have not declined the request. Where the cloud
// chooses, none is known.
func zonesLeft(o *option, r *resources.Request) (zones []string, known bool) {
	for _, at := range o.places {
		switch {
		case at == nil || len(at.zones) == 0:
		case !known:
			zones, known = slices.Clone(at.zones), true
		default:
			zones = slices.DeleteFunc(zones, func(zone string) bool { return !slices.Contains(at.zones, zone) })
		}
	}
	return slices.DeleteFunc(zones, func(zone string) bool { return declinedZone(r, o.at, zone) }), known
}

func declinedZone(r *resources.Request, at poolKey, zone string) bool {
	return zone != "" && slices.ContainsFunc(r.Declined, func(n resources.Decline) bool { return at.is(n) && n.Zone == zone })
}

// spread chooses one of the zones, another one for each request.
func spread(zones []string, id string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return zones[uint64(h.Sum32())%uint64(len(zones))]
}

// offered finds how the pool makes each label, or says which one it does not have.
func (d *dispatch) offered(o *option, r *resources.Request) string {
	for i, label := range r.Labels {
		at := d.placeOf(o.site, label)
		switch {
		case at == nil && o.slots[label] < countOf(r.Labels[:i+1], label):
			return fmt.Sprintf("it has no label %s, or fewer machines than are asked for", label)
		case at != nil && len(at.problems) > 0:
			return problemText(at.problems[0])
		}
		o.places[i] = at
	}
	return ""
}

func countOf(labels []string, label string) (n int64) {
	for _, l := range labels {
		if l == label {
			n++
		}
	}
	return n
}

// reuse takes ready nodes of the pool, all of one zone: the one in which most of the request is served.
func (d *dispatch) reuse(o *option, r *resources.Request, have []string) {
	idle := d.idle[o.at]
	if idle == nil || !slices.ContainsFunc(r.Labels, func(label string) bool { return idle.labels[label] > 0 }) {
		return
	}
	best, most := []string(nil), 0
	for _, zone := range idle.zones(o.zone) {
		if declinedZone(r, o.at, zone) {
			continue
		}
		if nodes, n := idle.match(r.Labels, have, zone, len(r.Labels) == 1); n > most && o.launchesIn(zone, nodes, have) {
			best, most = nodes, n
			if len(r.Labels) > 1 {
				o.zone = zone
			}
		}
	}
	if most > 0 {
		o.nodes = best
	}
}

// launchesIn reports whether the nodes that the request lacks beside nodes and have can be launched in the zone.
func (o *option) launchesIn(zone string, nodes, have []string) bool {
	for i, at := range o.places {
		lacks := nodes[i] == "" && (have == nil || have[i] == "")
		if lacks && len(nodes) > 1 && zone != "" && at != nil && len(at.zones) > 0 && !slices.Contains(at.zones, zone) {
			return false
		}
	}
	return true
}

// missing sums up what has to be launched, and says whether the pool could ever do that and whether it can now.
func (d *dispatch) missing(o *option, r *resources.Request, have []string) (never string) {
	var all resources.Amounts
	for i, at := range o.places {
		if at != nil {
			all = plus(all, at.each)
		}
		if o.nodes[i] != "" || have != nil && have[i] != "" {
			continue
		}
		o.missing++
		if at != nil {
			o.need = plus(o.need, at.each)
		}
		if o.full == nil {
			o.full = d.hindrance(at, r.Labels[i])
			o.hindered = o.full != nil
		}
	}
	if why := d.tooLarge(o, all); why != nil {
		return "the request is too large: " + why.String()
	}
	if why := d.beyondTenant(r, o); why != "" && have == nil {
		return why
	}
	if o.full == nil && o.missing > 0 {
		o.full = d.noRoom(o)
	}
	return ""
}

// hindrance says why a node of the label cannot be launched now, whatever room there is.
func (d *dispatch) hindrance(at *place, label string) *lack {
	if at == nil {
		return &lack{text: fmt.Sprintf("all machines with label %s are taken", label)}
	}
	if why := d.unable(at); why != "" {
		return &lack{text: why}
	}
	return nil
}

// tooLarge says that the pool, or its provider, could not hold the nodes even with nothing else in it.
func (d *dispatch) tooLarge(o *option, all resources.Amounts) *lack {
	if why := overLimits(o.pool, resources.Amounts{}, all); why != nil {
		return why
	}
	view, looked := d.view(o.at.provider)
	if !looked || o.pool.IgnoreProviderQuota || all.Instances == 0 {
		return nil
	}
	return overQuota(remaining(view.Quota.Limit, resources.Amounts{}), all)
}

// noRoom says which limit leaves no room now for what has to be launched.
func (d *dispatch) noRoom(o *option) *lack {
	if o.reserved {
		return &lack{text: "what is free is kept for a request that has waited longer"}
	}
	if why := overLimits(o.pool, d.pool(o.at.provider, o.at.pool).use, o.need); why != nil {
		return why
	}
	if left := d.free[o.at.provider]; left != nil && !o.pool.IgnoreProviderQuota {
		return overQuota(*left, o.need)
	}
	return nil
}

// take counts what an option uses, so that nobody else does.
func (d *dispatch) take(o *option) {
	for _, id := range o.nodes {
		if id == "" {
			continue
		}
		n := d.world.node[id]
		d.idle[o.at].remove(n)
		for _, label := range n.Labels {
			d.usable[label]--
		}
	}
	use := d.pool(o.at.provider, o.at.pool)
	use.use = plus(use.use, o.need)
	if left := d.free[o.at.provider]; left != nil {
		*left = minus(*left, o.need)
	}
}

// hold lets a request without room wait. When it has waited long, what it needs is kept for it; and when idle nodes are
// what fills the pool, they go.
func (d *dispatch) hold(r *resources.Request, options []*option) {
	if d.opt.Explain {
		var reasons []string
		for _, o := range options {
			reasons = append(reasons, fmt.Sprintf("%s: %s", o.at, o.full))
		}
		d.waits(r, strings.Join(reasons, "; "))
	}
	for _, o := range options {
		d.crowded[o.at] = true
	}
	for _, o := range options {
		if o.reserved || !d.reachable(o.at.provider) {
			continue
		}
		d.cramp(r, o)
		d.reserve(r, o)
		return
	}
}
