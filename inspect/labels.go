package inspect

import (
	"slices"
	"time"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// Labels lists the labels that requests can ask for, with the pools that offer them.
func (w *Fleet) Labels() []wire.Label {
	list := []wire.Label{}
	for _, name := range KnownLabels(w.Desired) {
		list = append(list, w.Label(name))
	}
	return list
}

// Label describes a label.
func (w *Fleet) Label(name string) wire.Label {
	l := wire.Label{Name: name, Offers: w.offers(name)}
	for _, declared := range w.Desired.Labels {
		if declared.Name == name {
			l.MinReady, l.MaxReadyAge = declared.MinReady, int64(declared.MaxReadyAge/time.Second)
		}
	}
	_, l.Nodes = w.use(func(n *resources.Node) bool { return slices.Contains(n.Labels, name) })
	for _, n := range w.Observed.Records.Nodes {
		if slices.Contains(n.Labels, name) && IsFree(n) {
			l.Free++
		}
	}
	for _, r := range w.Observed.Records.Requests {
		if r.IsOpen() && slices.Contains(r.Labels, name) {
			l.Waiting++
		}
	}
	return l
}

func (w *Fleet) offers(label string) []wire.Offer {
	offers := []wire.Offer{}
	for i := range w.Desired.Providers {
		p := &w.Desired.Providers[i]
		for j := range p.Pools {
			pool := &p.Pools[j]
			if offer := pool.Offer(label); offer != nil {
				offers = append(offers, w.offer(p.Name, pool.Name, offer))
			}
			if slots := slotsOf(pool, label); slots > 0 {
				offers = append(offers, wire.Offer{Provider: p.Name, Pool: pool.Name, Static: true, Slots: slots})
			}
		}
	}
	return offers
}

func (w *Fleet) offer(provider, pool string, o *resources.Offer) wire.Offer {
	view := w.Observed.Providers[provider].Offers[plan.OfferKey{Pool: pool, Label: o.Label}]
	shown := wire.Offer{Provider: provider, Pool: pool, Image: o.Image.String(), Flavor: view.Flavor, Resources: view.Resources,
		LaunchFailure: w.Observed.LaunchFailures[plan.OfferAddress(provider, pool, o.Label)]}
	for _, p := range view.Problems {
		shown.Problems = append(shown.Problems, p.Attribute+" = "+text.Quote(p.Value)+": "+p.Detail)
	}
	return shown
}

func slotsOf(pool *resources.Pool, label string) (slots int64) {
	for _, n := range pool.Nodes {
		if slices.Contains(n.Labels, label) {
			slots += n.Slots
		}
	}
	return slots
}

// KnownLabels lists the labels that are declared or that a pool offers.
func KnownLabels(want resources.Desired) []string {
	names := OfferedLabels(want)
	for _, l := range want.Labels {
		names = append(names, l.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// OfferedLabels lists the labels that pools offer.
func OfferedLabels(want resources.Desired) []string {
	var names []string
	for i := range want.Providers {
		for j := range want.Providers[i].Pools {
			names = append(names, want.Providers[i].Pools[j].LabelNames()...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
