package httpapi

import (
	"context"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

func (p providerRoutes) listLabels(context.Context, *none) (wire.Labels, error) {
	w := p.fleet()
	return wire.Labels{Labels: w.Labels()}, nil
}

func (p providerRoutes) showLabel(_ context.Context, in *Named) (wire.Label, error) {
	w := p.fleet()
	if _, err := find("label", in.ID, inspect.KnownLabels(w.Desired), func(name string) string { return name }); err != nil {
		return wire.Label{}, err
	}
	return w.Label(in.ID), nil
}
