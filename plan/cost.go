package plan

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/npctl/npctl/resources"
)

// CostOf returns the price of the nodes that the configuration requires, that exist, and that its limits allow.
func CostOf(want resources.Desired, seen Observed) resources.Cost {
	c := newCosts(want, seen)
	if c == nil {
		return resources.Cost{}
	}
	c.addMinReady()
	c.addExisting()
	c.addLimits()
	return c.cost()
}

// NodePrices returns the prices for one hour of the nodes that have a server, by ID, as far as they are known.
func NodePrices(want resources.Desired, seen Observed) map[string]resources.Money {
	prices := map[string]resources.Money{}
	if c := newCosts(want, seen); c != nil {
		c.eachExisting(func(n *resources.Node, _ string, price float64, known bool) {
			if known {
				prices[n.ID] = resources.MoneyOf(price, 1)
			}
		})
	}
	return prices
}

// newCosts returns the prices of new nodes, or nil if no provider has prices.
func newCosts(want resources.Desired, seen Observed) *costs {
	if !slices.ContainsFunc(want.Providers, func(p resources.Provider) bool { return len(p.Prices) > 0 }) {
		return nil
	}
	seen, _ = withMoves(want, seen)
	c := &costs{world: newWorld(want, emptied(want, seen), Options{}), seen: seen, lines: map[costKey]*costLine{}, unpriced: map[unpricedKey]*resources.UnpricedNodes{},
		providers: map[string]resources.Money{}, prices: map[*poolOffer]float64{}}
	c.addOffers()
	return c
}

// emptied returns an observation of the same clouds without any object, in which each provider can have nodes.
func emptied(want resources.Desired, seen Observed) Observed {
	none := Observed{Now: seen.Now, Installation: seen.Installation, Providers: map[string]ProviderView{}}
	for i := range want.Providers {
		if view, listed := seen.Providers[want.Providers[i].Name]; listed && view.Err == "" {
			none.Providers[want.Providers[i].Name] = ProviderView{ListedAt: view.ListedAt, Offers: view.Offers, CloudImages: view.CloudImages,
				Quota: resources.Quota{Limit: view.Quota.Limit}}
		}
	}
	return none
}

// costs adds the prices of nodes. Its world is the configuration in an empty fleet.
type costs struct {
	world     *world
	seen      Observed
	lines     map[costKey]*costLine
	unpriced  map[unpricedKey]*resources.UnpricedNodes
	providers map[string]resources.Money // at the limits, of the providers with prices
	unlimited []string
	prices    map[*poolOffer]float64 // of new nodes, if known
}

type costKey struct{ provider, label string }

type unpricedKey struct {
	costKey
	static bool
}

type costLine struct {
	minReady, now, limits resources.Money
	pools                 []string
}

func (c *costs) line(provider, label string) *costLine {
	key := costKey{provider, label}
	if c.lines[key] == nil {
		c.lines[key] = &costLine{}
	}
	return c.lines[key]
}

func (c *costs) withoutPrice(provider, label string, static bool) *resources.UnpricedNodes {
	key := unpricedKey{costKey{provider, label}, static}
	if c.unpriced[key] == nil {
		c.unpriced[key] = &resources.UnpricedNodes{Provider: provider, Label: label, Static: static}
	}
	return c.unpriced[key]
}

// addOffers adds a line for each label that a pool offers, and sets the prices of new nodes. Without a listing of the provider, the
// price is that of the flavor in the configuration.
func (c *costs) addOffers() {
	for _, s := range c.world.pools {
		view, _ := c.world.view(s.at.provider)
		for label, at := range s.offers {
			flavors := slices.Clip(view.Offers[OfferKey{s.at.pool, label}].FlavorNames)
			if price, known := s.provider.Price(append(flavors, staticText(at.offer.Static["flavor"]))); known {
				c.prices[at] = price
				c.line(s.at.provider, label)
			} else {
				c.withoutPrice(s.at.provider, label, false)
			}
		}
		for label := range s.slots {
			c.withoutPrice(s.at.provider, label, true)
		}
	}
}

// addMinReady places the nodes for min_ready in an empty fleet, as the planner does: slots of static nodes first, then each node in
// the best pool that has capacity left.
func (c *costs) addMinReady() {
	use := &capacity{world: c.world, pools: map[poolKey]*poolUse{}, free: map[string]*resources.ResourceAmounts{}}
	use.setQuota(nil)
	place := &placement{world: c.world, capacity: use}
	for i := range c.world.want.Labels {
		label := &c.world.want.Labels[i]
		missing := label.MinReady
		var offers []*poolOffer
		for _, s := range c.world.pools {
			if at := s.offers[label.Name]; at != nil && len(at.problems) == 0 {
				offers = append(offers, at)
			}
			if slots := min(s.slots[label.Name], missing); slots > 0 {
				c.withoutPrice(s.at.provider, label.Name, true).MinReady += slots
				missing -= slots
			}
		}
		for ; missing > 0; missing-- {
			at := place.best(offers, func(*poolOffer) bool { return true })
			if at == nil {
				break
			}
			use.pool(at.at.provider, at.at.pool).use = use.pool(at.at.provider, at.at.pool).use.Plus(at.each)
			if left := use.free[at.at.provider]; left != nil {
				*left = left.Minus(at.each)
			}
			price, known := c.prices[at]
			if !known {
				c.withoutPrice(at.at.provider, label.Name, false).MinReady++
				continue
			}
			line := c.line(at.at.provider, label.Name)
			line.minReady = line.minReady.Plus(resources.MoneyOf(price, 1))
			if !slices.Contains(line.pools, at.at.pool) {
				line.pools = append(line.pools, at.at.pool)
			}
		}
	}
}

// addExisting adds the nodes that have a server, and the static ones.
func (c *costs) addExisting() {
	c.eachExisting(func(n *resources.Node, label string, price float64, known bool) {
		if known {
			line := c.line(n.Provider, label)
			line.now = line.now.Plus(resources.MoneyOf(price, 1))
		} else {
			c.withoutPrice(n.Provider, label, n.Static).Now++
		}
	})
}

// eachExisting calls do with each node that has a server or is static, with its label and its price, if known.
func (c *costs) eachExisting(do func(n *resources.Node, label string, price float64, known bool)) {
	flavors := map[resources.Hash]string{}
	for _, t := range c.seen.Records.Templates {
		flavors[t.Hash] = staticText(t.Static["flavor"])
	}
	type object struct{ provider, id string }
	byID, byNode := map[object]string{}, map[object]string{}
	for name := range c.seen.Providers {
		view := c.seen.Providers[name]
		for i := range view.Instances {
			instance := &view.Instances[i]
			byID[object{name, instance.ID}] = instance.Flavor
			if m := instance.Marks; m.Kind == resources.KindNode && m.Installation == c.seen.Installation {
				byNode[object{name, m.ID}] = instance.Flavor
			}
		}
	}
	ours := ownProviders(c.world.want, c.seen.Records)
	for _, n := range c.seen.Records.Nodes {
		label := ""
		if len(n.Labels) > 0 {
			label = n.Labels[0] // only static nodes have several
		}
		flavor, listed := byNode[object{n.Provider, n.ID}]
		if imported, known := byID[object{n.Provider, n.ExternalID}]; known {
			flavor = imported
		}
		switch {
		case n.Static:
			do(n, label, 0, false)
		case n.ExternalID == "" && !listed, !ours[n.Provider]:
		default:
			price, known := c.nodePrice(n, label, flavor, flavors[n.Hash])
			do(n, label, price, known)
		}
	}
}

// nodePrice returns the price of an existing node: by its flavor in the cloud, the flavor that it was created with, or else that of
// new nodes of its label.
func (c *costs) nodePrice(n *resources.Node, label, listed, created string) (price float64, known bool) {
	p := c.world.providers[n.Provider]
	if p == nil {
		return 0, false
	}
	if price, known = p.Price([]string{listed, created}); known {
		return price, true
	}
	if s := c.world.poolByKey[poolKey{n.Provider, n.Pool}]; s != nil && s.offers[label] != nil {
		price, known = c.prices[s.offers[label]]
	}
	return price, known
}

// pricedOffer is an offer with its price.
type pricedOffer struct {
	each  resources.ResourceAmounts
	price float64
}

// limit is the most that all nodes together may use of a resource.
type limit struct {
	most int64
	of   func(resources.ResourceAmounts) int64
}

// limitsOf returns limits by dimension, nil without one, and of other resources.
func limitsOf(of func(resources.Dimension) *int64, other map[string]int64) (all []limit) {
	for d := range resources.Dimension(len(resources.Dimensions)) {
		if most := of(d); most != nil && *most != resources.Unlimited {
			all = append(all, limit{*most, func(a resources.ResourceAmounts) int64 { return a.Of(d) }})
		}
	}
	for name, most := range other {
		if most != resources.Unlimited {
			all = append(all, limit{most, func(a resources.ResourceAmounts) int64 { return a.Other[name] }})
		}
	}
	return all
}

// quotaLimits returns the limits of the quota of a provider.
func quotaLimits(q resources.ResourceAmounts) []limit {
	if q.IsZero() {
		return nil // not known
	}
	return limitsOf(func(d resources.Dimension) *int64 { return new(q.Of(d)) }, q.Other)
}

// dearest returns an amount that nodes of the offers cannot exceed within the limits, and whether there is one. For one offer, or
// with one limit on the number of nodes, it is reached. Otherwise it may be more than any combination of nodes costs.
func dearest(offers []pricedOffer, limits []limit) (most resources.Money, limited bool) {
	if !slices.ContainsFunc(offers, func(o pricedOffer) bool { return o.price > 0 }) {
		return 0, true
	}
	lowest := math.Inf(1)
	for _, l := range limits {
		highest := 0.0
		for _, o := range offers {
			n := math.Inf(1)
			if each := l.of(o.each); each > 0 {
				n = float64(max(l.most, 0)) / float64(each)
			}
			if len(offers) == 1 {
				n = math.Floor(n)
			}
			if o.price > 0 {
				highest = max(highest, o.price*n)
			}
		}
		lowest = min(lowest, highest)
	}
	return resources.MoneyOf(lowest, 1), !math.IsInf(lowest, 1)
}

// addLimits adds the dearest use that the limits of pools and quotas allow, of each label alone and of each provider.
func (c *costs) addLimits() {
	byProvider := map[string][]pricedOffer{} // of the pools that respect the quota
	within := map[string]resources.Money{}   // of the same pools
	for _, s := range c.world.pools {
		if len(s.provider.Prices) == 0 {
			continue
		}
		limits := limitsOf(s.pool.Of, s.pool.MaxResources)
		if view, listed := c.world.view(s.at.provider); listed && !s.pool.IgnoreProviderQuota {
			limits = append(limits, quotaLimits(view.Quota.Limit)...)
		}
		var offers []pricedOffer
		for label, at := range s.offers {
			price, known := c.prices[at]
			if !known {
				continue
			}
			offers = append(offers, pricedOffer{at.each, price})
			if most, limited := dearest(offers[len(offers)-1:], limits); limited {
				line := c.line(s.at.provider, label)
				line.limits = line.limits.Plus(most)
			}
		}
		most, limited := dearest(offers, limits)
		switch name := s.at.provider; {
		case !limited:
			c.unlimited = append(c.unlimited, s.at.String())
		case s.pool.IgnoreProviderQuota:
			c.providers[name] = c.providers[name].Plus(most)
		default:
			within[name], byProvider[name] = within[name].Plus(most), append(byProvider[name], offers...)
		}
	}
	for i := range c.world.want.Providers {
		name := c.world.want.Providers[i].Name
		most := within[name]
		view, _ := c.world.view(name)
		if all, limited := dearest(byProvider[name], quotaLimits(view.Quota.Limit)); limited {
			most = min(most, all)
		}
		c.providers[name] = c.providers[name].Plus(most)
	}
}

// cost returns the lines, sorted and added.
func (c *costs) cost() (all resources.Cost) {
	all.Unlimited = c.unlimited
	totals, providers := map[string]*costLine{}, map[string]*costLine{}
	add := func(to map[string]*costLine, key string, l *costLine) {
		if to[key] == nil {
			to[key] = &costLine{}
		}
		to[key].minReady, to[key].now = to[key].minReady.Plus(l.minReady), to[key].now.Plus(l.now)
	}
	currency := func(provider string) string { return c.world.providers[provider].Currency }
	for _, key := range slices.SortedFunc(maps.Keys(c.lines), func(a, b costKey) int {
		return cmp.Or(cmp.Compare(a.provider, b.provider), cmp.Compare(a.label, b.label))
	}) {
		l := c.lines[key]
		all.Labels = append(all.Labels, resources.CostLine{Provider: key.provider, Label: key.label, Currency: currency(key.provider), Pools: l.pools, CostRates: l.rates()})
		add(providers, key.provider, l)
		add(totals, currency(key.provider), l)
	}
	for _, name := range slices.Sorted(maps.Keys(providers)) {
		providers[name].limits = c.providers[name]
		totals[currency(name)].limits = totals[currency(name)].limits.Plus(c.providers[name])
		all.Providers = append(all.Providers, resources.CostLine{Provider: name, Currency: currency(name), CostRates: providers[name].rates()})
	}
	for _, name := range slices.Sorted(maps.Keys(totals)) {
		all.Totals = append(all.Totals, resources.CostLine{Currency: name, CostRates: totals[name].rates()})
	}
	for _, static := range []bool{false, true} {
		for key, u := range c.unpriced {
			if key.static == static {
				all.WithoutPrice = append(all.WithoutPrice, *u)
			}
		}
	}
	slices.SortStableFunc(all.WithoutPrice, func(a, b resources.UnpricedNodes) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Label, b.Label))
	})
	return all
}

func (l *costLine) rates() resources.CostRates {
	return resources.CostRates{MinReady: l.minReady.Rate(), Now: l.now.Rate(), Limits: l.limits.Rate()}
}

// CostChange is the cost before and after a change of the configuration, and the amounts that differ.
type CostChange struct {
	Before resources.Cost   `json:"before,omitzero"`
	After  resources.Cost   `json:"after,omitzero"`
	Totals []CostDifference `json:"totals,omitempty"` // by currency
	Labels []CostDifference `json:"labels,omitempty"` // by provider and label
}

// CostDifference is an amount that differs.
type CostDifference struct {
	Provider   string              `json:"provider,omitempty"`
	Label      string              `json:"label,omitempty"`
	Currency   string              `json:"currency,omitempty"`
	Before     resources.CostRates `json:"before"`
	After      resources.CostRates `json:"after"`
	Difference resources.CostRates `json:"difference"`
}

// IsZero reports whether neither configuration has prices.
func (c CostChange) IsZero() bool { return c.Before.IsZero() && c.After.IsZero() }

// costChange compares two costs. Lines of the earlier one count under the names that they have after the moves.
func costChange(before, after resources.Cost, moves resources.Moves) CostChange {
	return CostChange{before, after, costDifferences(before.Totals, after.Totals, moves), costDifferences(before.Labels, after.Labels, moves)}
}

func costDifferences(before, after []resources.CostLine, moves resources.Moves) (all []CostDifference) {
	type key struct{ provider, label, currency string }
	earlier, now := map[key]resources.CostRates{}, map[key]resources.CostRates{}
	for _, l := range before {
		label := moves.Present(resources.BlockRef{Type: "label", Name: l.Label}).Name
		earlier[key{moves.Provider(l.Provider), label, l.Currency}] = l.CostRates
	}
	keys := maps.Clone(earlier)
	for _, l := range after {
		k := key{l.Provider, l.Label, l.Currency}
		now[k], keys[k] = l.CostRates, l.CostRates
	}
	for _, k := range slices.SortedFunc(maps.Keys(keys), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.provider, b.provider), cmp.Compare(a.label, b.label), cmp.Compare(a.currency, b.currency))
	}) {
		if more := now[k].Minus(earlier[k]); more != (resources.CostRates{}) {
			all = append(all, CostDifference{k.provider, k.label, k.currency, earlier[k], now[k], more})
		}
	}
	return all
}
