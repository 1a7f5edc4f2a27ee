package httpapi

import (
	"slices"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// labels lists the labels that requests can ask for, with the pools that offer them.
func (w *snapshot) labels() []wire.Label {
	list := []wire.Label{}
	for _, name := range knownLabels(w.pass.Desired) {
		list = append(list, w.label(name))
	}
	return list
}

func (w *snapshot) label(name string) wire.Label {
	l := wire.Label{Name: name, Offers: w.offers(name)}
	for _, declared := range w.pass.Desired.Labels {
		if declared.Name == name {
			l.MinReady, l.MaxReadyAge = declared.MinReady, int64(declared.MaxReadyAge/time.Second)
		}
	}
	_, l.Nodes = w.use(func(n *resources.Node) bool { return slices.Contains(n.Labels, name) })
	for _, n := range w.records.Nodes {
		if slices.Contains(n.Labels, name) && n.State == resources.StateReady && n.Request == "" {
			l.Free++
		}
	}
	for _, r := range w.records.Requests {
		if r.IsOpen() && slices.Contains(r.Labels, name) {
			l.Waiting++
		}
	}
	return l
}

func (w *snapshot) offers(label string) []wire.Offer {
	offers := []wire.Offer{}
	for i := range w.pass.Desired.Providers {
		p := &w.pass.Desired.Providers[i]
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

func (w *snapshot) offer(provider, pool string, o *resources.Offer) wire.Offer {
	view := w.pass.Observed.Providers[provider].Offers[plan.OfferKey{Pool: pool, Label: o.Label}]
	shown := wire.Offer{Provider: provider, Pool: pool, Image: o.Image.String(), Flavor: view.Flavor, Resources: view.Resources,
		LaunchFailure: w.pass.Observed.LaunchFailures[plan.OfferAddress(provider, pool, o.Label)]}
	for _, p := range view.Problems {
		shown.Problems = append(shown.Problems, p.Attribute+" = "+quoted(p.Value)+": "+p.Detail)
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

func (c *call) listLabels() (any, error) {
	w := c.world()
	return wire.Labels{Labels: w.labels()}, nil
}

func (c *call) showLabel() (any, error) {
	w := c.world()
	names := knownLabels(w.pass.Desired)
	if !slices.Contains(names, c.id()) {
		return nil, unknown("label", c.id(), names)
	}
	return w.label(c.id()), nil
}
