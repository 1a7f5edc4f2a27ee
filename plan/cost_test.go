package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/npctl/npctl/resources"
)

// priced is a fleet with two clouds in two currencies, and static machines.
func priced() (resources.Desired, Observed) {
	offer := func(label string) resources.Offer { return resources.Offer{Label: label} }
	d := resources.Desired{
		Labels: []resources.Label{{Name: "big", MinReady: 1}, {Name: "metal", MinReady: 3}, {Name: "small", MinReady: 4}},
		Providers: []resources.Provider{
			{Name: "east", Prices: map[string]float64{"s": 0.1, "l": 0.25}, Currency: "EUR", Pools: []resources.Pool{
				{Name: "main", Limits: resources.Limits{MaxServers: ptr(3)}, Priority: 1, Offers: []resources.Offer{offer("big"), offer("small")}}}},
			{Name: "lab", Pools: []resources.Pool{{Name: "main", Nodes: []resources.StaticNode{{Name: "m", Labels: []string{"metal"}, Slots: 2}}}}},
			{Name: "west", Prices: map[string]float64{"s": 1.5}, Currency: "USD", Pools: []resources.Pool{
				{Name: "main", Priority: 2, Offers: []resources.Offer{offer("big"), offer("small")}}}},
		},
	}
	flavors := func(names ...string) map[OfferKey]OfferView {
		all := map[OfferKey]OfferView{}
		for i, label := range []string{"big", "small"} {
			all[OfferKey{"main", label}] = OfferView{ResolvedOffer: resources.ResolvedOffer{FlavorNames: names[i : i+1],
				Resources: resources.ResourceAmounts{Instances: 1, Cores: int64(4 - 3*i)}}}
		}
		return all
	}
	o := Observed{Now: now, Installation: "here", Providers: map[string]ProviderView{
		"east": {ListedAt: now, Quota: unlimited(), Offers: flavors("l", "s")},
		"west": {ListedAt: now, Quota: unlimited(), Offers: flavors("l", "s")},
	}}
	return d, o
}

// costText returns the parts of a cost that are not zero, one for each line.
func costText(c resources.Cost) string {
	var b strings.Builder
	for _, l := range slices.Concat(c.Totals, c.Providers, c.Labels) {
		fmt.Fprintf(&b, "%s %s %s %v: %v %v %v\n", l.Provider, l.Label, l.Currency, l.Pools, l.MinReady.Hour, l.Now.Hour, l.Limits.Hour)
	}
	for _, u := range c.WithoutPrice {
		fmt.Fprintf(&b, "without %s %s %v: %d %d\n", u.Provider, u.Label, u.Static, u.MinReady, u.Now)
	}
	return b.String() + strings.Join(c.Unlimited, " ")
}

func TestCostOfAFleet(t *testing.T) {
	d, o := priced()
	o.Records.Templates = []*resources.Template{{Hash: "v1:old", Static: map[string]string{"flavor": `"l"`}}}
	node := func(id, provider, label string, change func(*resources.Node)) {
		n := &resources.Node{ID: id, State: resources.StateReady, Provider: provider, Pool: "main", Labels: []string{label}, ExternalID: "server-" + id}
		change(n)
		o.Records.Nodes = append(o.Records.Nodes, n)
	}
	node("1", "east", "small", func(*resources.Node) {})
	node("2", "east", "small", func(n *resources.Node) { n.Hash, n.State = "v1:old", resources.StateDeleting }) // of the flavor that it was created with
	node("3", "east", "small", func(n *resources.Node) { n.Hash, n.ExternalID = "v1:old", "" })                 // listed below, with its present flavor
	node("4", "east", "small", func(n *resources.Node) { n.State, n.ExternalID = resources.StateBuilding, "" }) // no server yet
	node("5", "west", "big", func(*resources.Node) {})
	node("6", "lab", "metal", func(n *resources.Node) { n.Static = true })
	node("7", "gone", "small", func(*resources.Node) {})
	o.Records.Providers = []*resources.ProviderRecord{{Name: "gone"}}
	view := o.Providers["east"]
	view.Instances = []resources.Instance{{ID: "x", Flavor: "s", Marks: resources.OwnerTags{Installation: "here", Kind: resources.KindNode, ID: "3"}}}
	o.Providers["east"] = view

	if got, want := NodePrices(d, o), (map[string]resources.Money{"1": 100000, "2": 250000, "3": 100000}); !maps.Equal(got, want) {
		t.Errorf("prices of nodes: %v, want %v", got, want)
	}

	// East has the better priority and 3 servers: big, and two of small. The others of small go west, and metal is in the lab.
	want := `  EUR []: 0.45 0.45 0.75
  USD []: 3 0 0
east  EUR []: 0.45 0.45 0.75
west  USD []: 3 0 0
east big EUR [main]: 0.25 0 0.75
east small EUR [main]: 0.2 0.45 0.3
west small USD [main]: 3 0 0
without gone small false: 0 1
without lab metal true: 2 1
without west big false: 0 1
west/main`
	if got := costText(CostOf(d, o)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestLimitsOfTheCost(t *testing.T) {
	small, big := pricedOffer{resources.ResourceAmounts{Instances: 1, Cores: 1, RAM: 2}, 0.06}, pricedOffer{resources.ResourceAmounts{Instances: 1, Cores: 4, RAM: 2}, 0.1}
	limits := func(servers, cores int64) (all []limit) {
		pool := resources.Pool{}
		if servers >= 0 {
			pool.MaxServers = &servers
		}
		if cores >= 0 {
			pool.MaxCores = &cores
		}
		return limitsOf(pool.Of, pool.MaxResources)
	}
	for _, c := range []struct {
		name   string
		offers []pricedOffer
		limits []limit
		want   float64 // -1: no limit
	}{
		{"the dearest label", []pricedOffer{small, big}, limits(10, -1), 1},
		{"whole nodes of one label", []pricedOffer{big}, limits(-1, 11), 0.2},
		{"the lowest limit", []pricedOffer{small, big}, limits(100, 10), 0.6},
		{"a mix of both, which costs 0.72, is not more", []pricedOffer{small, big}, limits(10, 20), 1},
		{"no limit", []pricedOffer{small}, nil, -1},
		{"a limit of what nodes do not use", []pricedOffer{{resources.ResourceAmounts{Instances: 1}, 1}}, limits(-1, 5), -1},
		{"a disabled pool", []pricedOffer{small, big}, limits(0, -1), 0},
		{"nodes without a price need no limit", []pricedOffer{{small.each, 0}}, nil, 0},
		{"no nodes", nil, nil, 0},
	} {
		most, limited := dearest(c.offers, c.limits)
		if got := most.Rate().Hour; limited != (c.want >= 0) || limited && got != c.want {
			t.Errorf("%s: %v (%v), want %v", c.name, got, limited, c.want)
		}
	}
}

func TestQuotaLimitsTheCost(t *testing.T) {
	d, o := priced()
	d.Providers[2].Pools = append(d.Providers[2].Pools, d.Providers[2].Pools[0])
	d.Providers[2].Pools[1].Name = "other"
	view := o.Providers["west"]
	view.Offers = maps.Clone(view.Offers)
	view.Offers[OfferKey{"other", "small"}] = view.Offers[OfferKey{"main", "small"}]
	view.Quota.Limit.Instances = 10
	o.Providers["west"] = view
	c := CostOf(d, o)
	if got := c.Providers[1].Limits.Hour; got != 15 || len(c.Unlimited) > 0 {
		t.Errorf("two pools in a quota of 10 nodes cost %v at most, want 15; without a limit: %v", got, c.Unlimited)
	}
	d.Providers[2].Pools[1].IgnoreProviderQuota, d.Providers[2].Pools[1].MaxServers = true, ptr(4)
	if got := CostOf(d, o).Providers[1].Limits.Hour; got != 21 {
		t.Errorf("with a pool that ignores the quota %v, want 21", got)
	}
}

// drawPrices gives each provider prices, or none, and each offer a flavor that may have one.
func drawPrices(t *rapid.T, d resources.Desired) {
	for i := range d.Providers {
		p := &d.Providers[i]
		if rapid.IntRange(0, 3).Draw(t, "priced") > 0 {
			p.Prices = map[string]float64{"a": rapid.Float64Range(0, 10).Draw(t, "price"), "b": rapid.Float64Range(0, 1e8).Draw(t, "price")}
			p.Currency = rapid.SampledFrom([]string{"", "EUR", "USD"}).Draw(t, "currency")
		}
		for j := range p.Pools {
			for k := range p.Pools[j].Offers {
				p.Pools[j].Offers[k].Static = map[string]string{"flavor": rapid.SampledFrom([]string{`"a"`, `"b"`, `"c"`}).Draw(t, "flavor")}
			}
		}
	}
}

func TestCostIsTheSumOfItsParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, m := drawDesired(t), drawWorld(t)
		drawPrices(t, d)
		c := CostOf(d, m.observe())
		type sum struct{ minReady, now, limits resources.Money }
		byCurrency, byProvider := map[string]sum{}, map[string]sum{}
		for _, l := range c.Labels {
			s, p := byCurrency[l.Currency], byProvider[l.Provider]
			s.minReady, s.now = s.minReady.Plus(l.MinReady.Money()), s.now.Plus(l.Now.Money())
			p.minReady, p.now, p.limits = p.minReady.Plus(l.MinReady.Money()), p.now.Plus(l.Now.Money()), p.limits.Plus(l.Limits.Money())
			byCurrency[l.Currency], byProvider[l.Provider] = s, p
		}
		for _, l := range c.Totals {
			if s := byCurrency[l.Currency]; s.minReady != l.MinReady.Money() || s.now != l.Now.Money() {
				t.Fatalf("the labels do not add up to the total in %q:\n%s", l.Currency, costText(c))
			}
			delete(byCurrency, l.Currency)
		}
		limits := map[string]resources.Money{}
		for _, l := range c.Providers {
			s := byProvider[l.Provider]
			if s.minReady != l.MinReady.Money() || s.now != l.Now.Money() || l.Limits.Money() > s.limits {
				t.Fatalf("the labels do not add up to provider %s:\n%s", l.Provider, costText(c))
			}
			limits[l.Currency] = limits[l.Currency].Plus(l.Limits.Money())
		}
		for _, l := range c.Totals {
			if limits[l.Currency] != l.Limits.Money() {
				t.Fatalf("the providers do not add up to the limits in %q:\n%s", l.Currency, costText(c))
			}
		}
		if len(byCurrency) > 0 {
			t.Fatalf("no totals for %v", byCurrency)
		}
		if again := CostOf(d, m.observe()); costText(again) != costText(c) {
			t.Fatalf("another result for the same fleet:\n%s\nand\n%s", costText(c), costText(again))
		}
	})
}

// In an empty fleet whose images are ready, the cost at min_ready is the price of the launches that the planner plans.
func TestCostAtMinReadyIsThatOfThePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDesired(t)
		drawPrices(t, d)
		o := Observed{Now: now, Installation: "here", Files: []ImageFile{}, Providers: map[string]ProviderView{}, Formats: map[string]string{}}
		for i := range d.Providers {
			p := &d.Providers[i]
			o.Providers[p.Name], o.Formats[p.Name] = ProviderView{ListedAt: now, Quota: unlimited()}, "raw"
			for j := range p.Pools {
				p.Pools[j].Nodes = nil // of which the planner registers slots later
			}
		}
		for i := range d.Images {
			d.Images[i].Pause, d.Images[i].Validate = false, nil // test nodes share the pools
		}
		planned := map[costKey]resources.Money{}
		p := Compute(d, o, Options{})
		for _, s := range p.Steps {
			if at, _ := d.Provider(s.Provider); s.Kind == KindLaunch {
				if price, known := at.Price([]string{staticText(at.Pool(s.Pool).Offer(s.Label).Static["flavor"])}); known {
					key := costKey{s.Provider, s.Label}
					planned[key] = planned[key].Plus(resources.MoneyOf(price, 1))
				}
			}
		}
		for _, l := range CostOf(d, o).Labels {
			if want := planned[costKey{l.Provider, l.Label}]; l.MinReady.Money() != want.Rate().Money() {
				t.Fatalf("%s in %s costs %v at min_ready, the plan says %v:\n%s", l.Label, l.Provider, l.MinReady, want.Rate(), lines(p))
			}
		}
	})
}

// Without prices, a plan and an effect have no cost.
func TestWithoutPricesThereIsNoCost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, m := drawDesired(t), drawWorld(t)
		seen := m.observe()
		side := Side{d, seen, Plan{Cost: CostOf(d, seen)}}
		if c := side.Plan.Cost; !c.IsZero() || len(c.Labels) > 0 || !EffectOf(side, side, nil).Cost.IsZero() {
			t.Fatalf("a cost without prices:\n%s", costText(c))
		}
	})
}

func TestCostBeforePlusDifferenceIsCostAfter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, m := drawDesired(t), drawWorld(t)
		head := drawChange(t, base)
		if rapid.Bool().Draw(t, "rename") {
			head = renamed(base)
		}
		drawPrices(t, base)
		drawPrices(t, head) // also of the providers that both share
		seen := m.observe()
		c := costChange(CostOf(base, seen), CostOf(head, seen), head.Moves)
		for _, part := range []struct {
			before, after []resources.CostLine
			differences   []CostDifference
		}{{c.Before.Totals, c.After.Totals, c.Totals}, {c.Before.Labels, c.After.Labels, c.Labels}} {
			sum := map[string]int64{}
			add := func(factor int64, r resources.CostRates, currency string) {
				for name, rate := range map[string]resources.Rate{"min_ready": r.MinReady, "now": r.Now, "limits": r.Limits} {
					sum[name+currency] += factor * int64(rate.Money())
				}
			}
			for _, l := range part.before {
				add(1, l.CostRates, l.Currency)
			}
			for _, d := range part.differences {
				add(1, d.Difference, d.Currency)
				if d.After.Minus(d.Before) != d.Difference {
					t.Fatalf("%v and %v differ by %v", d.Before, d.After, d.Difference)
				}
			}
			for _, l := range part.after {
				add(-1, l.CostRates, l.Currency)
			}
			for name, rest := range sum {
				if rest != 0 {
					t.Fatalf("%s is off by %d\nbefore:\n%s\nafter:\n%s", name, rest, costText(c.Before), costText(c.After))
				}
			}
		}
	})
}

func TestPricesAloneAreNoSteps(t *testing.T) {
	base, o := priced()
	head, _ := priced()
	head.Providers[0].Prices["s"] = 0.2
	side := func(d resources.Desired) Side {
		p := Compute(d, o, Options{})
		p.Cost = CostOf(d, o)
		return Side{d, o, p}
	}
	e := EffectOf(side(base), side(head), []resources.Difference{{Address: "provider.east", Attribute: "prices"}})
	if e.String() != "Effect: 1 setting changed." || len(e.Cost.Totals) != 1 || e.Cost.Totals[0].Difference.MinReady.Month != 144 {
		t.Errorf("%s %+v", e, e.Cost.Totals)
	}
}
