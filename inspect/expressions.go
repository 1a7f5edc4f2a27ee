package inspect

import (
	"encoding/json"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// DesiredView returns the desired state for expressions: labels, images and providers with their pools and offers, by
// name and with the names of the configuration's attributes. It contains no sensitive value.
func DesiredView(d resources.Desired) map[string]any {
	labels, images, providers := map[string]any{}, map[string]any{}, map[string]any{}
	for _, l := range d.Labels {
		labels[l.Name] = schema.Values(l)
	}
	for _, i := range d.Images {
		image := schema.Values(i)
		image["kind"], image["builder"] = i.Kind, i.Builder
		images[i.Name] = image
	}
	for i := range d.Providers {
		p := &d.Providers[i]
		provider, pools := schema.Values(*p), map[string]any{}
		for j := range p.Pools {
			pools[p.Pools[j].Name] = poolView(&p.Pools[j])
		}
		provider["driver"], provider["pools"] = p.Driver, pools
		providers[p.Name] = provider
	}
	return map[string]any{"labels": labels, "images": images, "providers": providers}
}

func poolView(p *resources.Pool) map[string]any {
	pool, labels, nodes := schema.Values(*p), map[string]any{}, map[string]any{}
	for i := range p.Offers {
		offer := offerValues(&p.Offers[i])
		if ref := p.Offers[i].Image; ref != (resources.ImageRef{}) {
			offer["image"] = ref.String()
		}
		labels[p.Offers[i].Label] = offer
	}
	for i := range p.Nodes {
		nodes[p.Nodes[i].Name] = schema.Values(p.Nodes[i])
	}
	pool["labels"], pool["nodes"] = labels, nodes
	return pool
}

// offerValues returns the attributes of an offer that are not at their defaults. Sensitive ones are masked.
func offerValues(o *resources.Offer) map[string]any {
	values := map[string]any{}
	for name, text := range o.Values {
		if json.Valid([]byte(text)) {
			values[name] = json.RawMessage(text)
		} else { // the placeholder of a masked value
			values[name] = text
		}
	}
	return values
}

// StateView returns the state for expressions: the views of providers and labels, and the records of builds, uploads,
// nodes and requests.
func (w *Fleet) StateView() map[string]any {
	node, request := w.NodeViews(nil), w.RequestViews()
	nodes, requests := []wire.Node{}, []wire.Request{}
	for _, n := range listed(w.Observed.Records.Nodes) {
		nodes = append(nodes, node(n))
	}
	for _, r := range listed(w.Observed.Records.Requests) {
		requests = append(requests, request(r))
	}
	return map[string]any{
		"builds": listed(w.Observed.Records.Builds), "uploads": listed(w.Observed.Records.Uploads), "nodes": nodes, "requests": requests,
		"labels": w.Labels(), "providers": w.Providers(Service{}),
	}
}

// ExpressionRoots returns the values that expressions of npctl console and npctl test refer to, beside those of the
// configuration.
func ExpressionRoots(d resources.Desired, records plan.Records) map[string]any {
	fleet := Fleet{Desired: d, Observed: plan.Observed{Records: records}}
	return map[string]any{"desired": DesiredView(d), "state": fleet.StateView()}
}

// listed returns a list that is never null in JSON.
func listed[R any](records []R) []R { return append([]R{}, records...) }
