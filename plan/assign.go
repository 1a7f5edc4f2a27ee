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
	pool    *resources.Pool
	at      poolKey
	zone    string
	nodes   []string          // ready ones, by position in the request; empty where one has to be launched
	places  map[string]*place // by label
	missing int
	need    resources.Amounts // of what has to be launched
	full    string            // why it cannot be served now
	rank    int64             // of its provider
}

func (o *option) place() resources.Place {
	return resources.Place{Provider: o.at.provider, Pool: o.at.pool, Zone: o.zone}
}

// options lists the pools that could serve a request, the best one first, and those that never will with the reason.
func (d *dispatch) options(r *resources.Request) (options []*option, declined []resources.Decline) {
	for i := range d.want.Providers {
		p := &d.want.Providers[i]
		for j := range p.Pools {
			pool := &p.Pools[j]
			if !offersAny(pool, r.Labels) {
				continue
			}
			if k := slices.IndexFunc(r.Declined, func(n resources.Decline) bool {
				return n.Provider == p.Name && n.Pool == pool.Name && n.Zone == ""
			}); k >= 0 {
				declined = append(declined, r.Declined[k])
				continue
			}
			o, why := d.optionAt(r, p.Name, pool.Name, nil)
			if why == zonesDeclined {
				declined = append(declined, zoneDeclines(r, p.Name, pool.Name)...)
				continue
			}
			if why != "" {
				declined = append(declined, resources.Decline{Provider: p.Name, Pool: pool.Name, Reason: why})
				continue
			}
			options = append(options, o)
		}
	}
	slices.SortStableFunc(options, func(a, b *option) int {
		return cmp.Or(cmp.Compare(min(a.missing, 1), min(b.missing, 1)), cmp.Compare(a.rank, b.rank), cmp.Compare(a.pool.Priority, b.pool.Priority),
			cmp.Compare(d.share(b), d.share(a)), cmp.Compare(a.at.provider, b.at.provider), cmp.Compare(a.at.pool, b.at.pool))
	})
	return options, declined
}

func offersAny(pool *resources.Pool, labels []string) bool {
	return slices.ContainsFunc(labels, func(label string) bool {
		return slices.ContainsFunc(pool.Offers, func(o resources.Offer) bool { return o.Label == label }) ||
			slices.ContainsFunc(pool.Nodes, func(n resources.StaticNode) bool { return slices.Contains(n.Labels, label) })
	})
}

// share is the part of the pool that is free.
func (d *dispatch) share(o *option) float64 {
	for _, at := range o.places {
		return d.freeShare(at, d.free)
	}
	return 0
}

// optionAt looks at one pool. have are nodes that the request has there already. why says that it never can.
func (d *dispatch) optionAt(r *resources.Request, provider, pool string, have []string) (o *option, why string) {
	p := d.world.providers[provider]
	if p == nil {
		return nil, "the provider is no longer configured"
	}
	i := slices.IndexFunc(p.Pools, func(x resources.Pool) bool { return x.Name == pool })
	if i < 0 {
		return nil, "the pool is no longer configured"
	}
	if r.Provider != "" && r.Provider != provider {
		return nil, "the request wants provider " + r.Provider
	}
	o = &option{pool: &p.Pools[i], at: poolKey{provider, pool}, zone: r.Place.Zone, nodes: make([]string, len(r.Labels)),
		places: map[string]*place{}, rank: p.Priority}
	if why := d.offered(o, p, r); why != "" {
		return nil, why
	}
	if !d.reachable(provider) {
		o.full = "the provider does not answer"
		return o, ""
	}
	if !r.Fresh {
		d.reuse(o, r, have)
	}
	if o.zone == "" && len(r.Labels) > 1 {
		zones, known := d.zonesLeft(o, r)
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

func zoneDeclines(r *resources.Request, provider, pool string) []resources.Decline {
	return slices.DeleteFunc(slices.Clone(r.Declined), func(n resources.Decline) bool { return n.Provider != provider || n.Pool != pool })
}

// zonesLeft lists the zones in which every label can be launched and that have not declined the request. Where the cloud
// chooses, none is known.
func (d *dispatch) zonesLeft(o *option, r *resources.Request) (zones []string, known bool) {
	view, _ := d.view(o.at.provider)
	for _, label := range r.Labels {
		own := view.Offers[OfferKey{o.at.pool, label}].Zones
		switch {
		case len(own) == 0:
		case !known:
			zones, known = slices.Clone(own), true
		default:
			zones = slices.DeleteFunc(zones, func(zone string) bool { return !slices.Contains(own, zone) })
		}
	}
	return slices.DeleteFunc(zones, func(zone string) bool { return declinedZone(r, o.at, zone) }), known
}

func declinedZone(r *resources.Request, at poolKey, zone string) bool {
	return zone != "" && slices.ContainsFunc(r.Declined, func(n resources.Decline) bool {
		return n.Provider == at.provider && n.Pool == at.pool && n.Zone == zone
	})
}

// spread chooses one of the zones, another one for each request.
func spread(zones []string, id string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return zones[uint64(h.Sum32())%uint64(len(zones))]
}

// offered finds how the pool makes each label, or says which one it does not have.
func (d *dispatch) offered(o *option, p *resources.Provider, r *resources.Request) string {
	slots := map[string]int64{}
	for _, label := range r.Labels {
		k := slices.IndexFunc(o.pool.Offers, func(x resources.Offer) bool { return x.Label == label })
		if k < 0 {
			if slots[label]++; d.slotsOf(o.pool, label) < slots[label] {
				return fmt.Sprintf("it has no label %s, or fewer machines than are asked for", label)
			}
			continue
		}
		at := &place{provider: p, pool: o.pool, offer: &o.pool.Offers[k], each: resources.Amounts{Instances: 1}}
		if view, looked := d.view(p.Name); looked {
			seen := view.Offers[OfferKey{o.pool.Name, label}]
			at.each = plus(at.each, seen.Resources)
			at.each.Instances = 1
			if len(seen.Problems) > 0 {
				return fmt.Sprintf("%s = %q: %s", seen.Problems[0].Attribute, seen.Problems[0].Value, seen.Problems[0].Detail)
			}
		}
		o.places[label] = at
	}
	return ""
}

func (d *dispatch) slotsOf(pool *resources.Pool, label string) (slots int64) {
	for _, n := range pool.Nodes {
		if slices.Contains(n.Labels, label) {
			slots += n.Slots
		}
	}
	return slots
}

// reuse takes ready nodes of the pool, all of one zone: the one in which most of the request is served.
func (d *dispatch) reuse(o *option, r *resources.Request, have []string) {
	best, most := []string(nil), 0
	for _, zone := range d.zones(o) {
		if declinedZone(r, o.at, zone) {
			continue
		}
		if nodes, n := d.match(o.at, r.Labels, have, zone, len(r.Labels) == 1); n > most {
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

// zones lists the zones to look at: the request's own if it has one.
func (d *dispatch) zones(o *option) []string {
	if o.zone != "" {
		return []string{o.zone}
	}
	var zones []string
	for _, n := range d.idle[o.at] {
		if !slices.Contains(zones, n.Zone) {
			zones = append(zones, n.Zone)
		}
	}
	slices.Sort(zones)
	return zones
}

// match finds idle nodes for the labels that are not served yet.
func (d *dispatch) match(at poolKey, labels, have []string, zone string, anywhere bool) (nodes []string, n int) {
	nodes = make([]string, len(labels))
	used := map[string]bool{}
	for i, label := range labels {
		if have != nil && have[i] != "" {
			continue
		}
		for _, node := range d.idle[at] {
			if !used[node.ID] && (anywhere || node.Zone == zone) && slices.Contains(node.Labels, label) {
				nodes[i], used[node.ID] = node.ID, true
				n++
				break
			}
		}
	}
	return nodes, n
}

// missing sums up what has to be launched, and says whether the pool could ever do that and whether it can now.
func (d *dispatch) missing(o *option, r *resources.Request, have []string) (never string) {
	var all resources.Amounts
	for i, label := range r.Labels {
		at := o.places[label]
		if at != nil {
			all = plus(all, at.each)
		}
		if o.nodes[i] != "" || have != nil && have[i] != "" {
			continue
		}
		o.missing++
		if at == nil {
			o.full = cmp.Or(o.full, fmt.Sprintf("all machines with label %s are taken", label))
			continue
		}
		o.need = plus(o.need, at.each)
		o.full = cmp.Or(o.full, d.unable(at))
	}
	if why := d.tooLarge(o, all); why != "" {
		return why
	}
	if o.full == "" && o.missing > 0 {
		o.full = d.noRoom(o)
	}
	return ""
}

// tooLarge says that the pool, or its provider, could not hold the nodes even with nothing else in it.
func (d *dispatch) tooLarge(o *option, all resources.Amounts) string {
	if why := overLimits(o.pool, resources.Amounts{}, all); why != "" {
		return "the request is too large: " + why
	}
	view, looked := d.view(o.at.provider)
	if !looked || o.pool.IgnoreProviderQuota || all.Instances == 0 {
		return ""
	}
	limit := view.Quota.Limit
	whole := resources.Amounts{Instances: left(limit.Instances, 0), Cores: left(limit.Cores, 0), RAM: left(limit.RAM, 0),
		Volumes: left(limit.Volumes, 0), VolumeGB: left(limit.VolumeGB, 0), Addresses: left(limit.Addresses, 0)}
	if why := overQuota(whole, all); why != "" {
		return "the request is too large: " + why
	}
	return ""
}

// noRoom says which limit leaves no room now for what has to be launched.
func (d *dispatch) noRoom(o *option) string {
	if d.reserved[o.at] {
		return "what is free is kept for a request that has waited longer"
	}
	if why := overLimits(o.pool, d.pool(o.at.provider, o.at.pool).use, o.need); why != "" {
		return why
	}
	if left := d.free[o.at.provider]; left != nil && !o.pool.IgnoreProviderQuota {
		return overQuota(*left, o.need)
	}
	return ""
}

// take counts what an option uses, so that nobody else does.
func (d *dispatch) take(o *option) {
	for _, id := range o.nodes {
		if id == "" {
			continue
		}
		i := slices.IndexFunc(d.idle[o.at], func(n *resources.Node) bool { return n.ID == id })
		for _, label := range d.idle[o.at][i].Labels {
			d.usable[label]--
		}
		d.idle[o.at] = slices.Delete(d.idle[o.at], i, i+1)
	}
	use := d.pool(o.at.provider, o.at.pool)
	use.use = plus(use.use, o.need)
	if left := d.free[o.at.provider]; left != nil {
		*left = minus(*left, o.need)
	}
}

// hold lets a request without room wait. When it has waited long, what it needs is kept for it; and an idle node of
// another label goes when that is what fills the pool.
func (d *dispatch) hold(r *resources.Request, options []*option) {
	var reasons []string
	for _, o := range options {
		reasons = append(reasons, fmt.Sprintf("%s/%s: %s", o.at.provider, o.at.pool, o.full))
	}
	d.waits(r, strings.Join(reasons, "; "))
	for _, o := range options {
		if d.reserved[o.at] || !d.reachable(o.at.provider) {
			continue
		}
		d.makeRoom(r, o)
		d.reserve(r, o)
		return
	}
}

// reserve keeps the pool's room for the first of the requests that have waited long.
func (d *dispatch) reserve(r *resources.Request, o *option) {
	if d.reserved[o.at] || d.seen.Now.Sub(r.Created) < reserveAfter {
		return
	}
	d.take(o)
	d.reserved[o.at] = true
}

// makeRoom removes the idle node that has waited longest, when the pool is full and nobody who waits asks for its label.
func (d *dispatch) makeRoom(r *resources.Request, o *option) {
	if o.missing == 0 || d.noRoom(o) == "" || len(d.pool(o.at.provider, o.at.pool).frees) > 0 {
		return
	}
	for i, n := range d.idle[o.at] {
		if n.Static || slices.ContainsFunc(n.Labels, func(label string) bool { return d.awaited(label) }) {
			continue
		}
		d.idle[o.at] = slices.Delete(d.idle[o.at], i, i+1)
		for _, label := range n.Labels {
			d.usable[label]--
		}
		d.unchanged--
		use := d.pool(o.at.provider, o.at.pool)
		use.use = minus(use.use, amounts(n)) // endNode counts it again
		d.endNode(n, ReasonRoomNeeded, Fact{"request", r.ID})
		return
	}
}

// awaited reports whether somebody waits for a node of the label.
func (d *dispatch) awaited(label string) bool {
	return slices.ContainsFunc(d.seen.Records.Requests, func(r *resources.Request) bool {
		return (r.State == resources.StateRequested || r.State == resources.StatePending) && slices.Contains(r.Labels, label)
	})
}
